"""Records a chaos run on real vLLM servers on this machine's CPU in a Prometheus, and takes pictures of it.

``python dashboards/preview/record.py --out FOLDER --pictures docs/pictures`` takes six minutes or more. It needs
the environment of ``make vllm-env``, Prometheus, and for the pictures the built preview (README.md) and Chromium.
FOLDER keeps the data: ``prometheus --storage.tsdb.path=FOLDER/data`` shows it again, and ``take.py --at`` with the
time that is printed takes the pictures again.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from hitcurve.child import ChildProcess
from hitcurve.errors import EnvironmentFailed
from hitcurve.reading import UNHEALTHY_STATES
from hitcurve_chaos.demo.engines import RunningEngine, start_vllm

REPOSITORY = Path(__file__).resolve().parents[2]
BLOCK_SIZE, POOL_BLOCKS = 32, 500
ENGINE_OPTIONS = ("--dtype", "float32", "--kv-cache-metrics", "--kv-cache-metrics-sample", "1.0")
LOAD = {"groups": 16, "prefix_tokens": 640, "suffix_tokens": 100, "output_tokens": 4, "zipf": 0, "max_lag": 5}
SCENARIOS = [
    {"scenario": "pool-pressure", "with": {"refill": "4s", "prompt_tokens": 1000}},
    {"scenario": "lora-churn", "with": {"period": "4s"}},
    {"scenario": "reset-prefix-cache"},
]
TIMES = {"baseline": "10s", "baseline_within": "60s", "hold": "25s", "recover_within": "60s", "max_lag": "5s"}
START_S, CHAOS_S = 60.0, 480.0
HITCURVE = (sys.executable, "-m", "hitcurve")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="new folder for data and logs")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="take pictures into this folder")
    parser.add_argument("--rate", type=float, default=4.0, help="requests per second and replica (default 4)")
    asked = parser.parse_args()
    if asked.out.exists():
        parser.error(f"{asked.out} exists; name a new folder with --out")
    if shutil.which("prometheus") is None:
        parser.error("no prometheus is installed; on Debian it is the package prometheus")
    asked.out.mkdir(parents=True)
    folder = asked.out.resolve()
    try:
        with ExitStack() as running:
            record(folder, asked.rate, asked.pictures, running)
    except EnvironmentFailed as error:
        print(f"record.py: {error}", file=sys.stderr)
        raise SystemExit(3) from error


def record(folder: Path, rate: float, pictures: Path | None, running: ExitStack) -> None:
    """Start everything, run the scenarios, ask every query of every dashboard, take the pictures."""
    engines = started_engines(folder, running)
    exporter_url = started_exporter(folder, engines, running)
    active = free_address()
    prometheus_url = started_prometheus(folder, engines, exporter_url, active, running)
    since_s = time.time()
    started_loads(folder, engines["vllm-1"], rate, running)
    print(f"chaos on {engines['vllm-0'].url}; Prometheus at {prometheus_url}")
    chaos = [*HITCURVE, "chaos", "run", str(suite_file(folder)), "--out", str(folder / "run"), "--seed", "1"]
    chaos += ["--targets", str(target_file(folder, engines["vllm-0"], exporter_url, rate))]
    subprocess.run([*chaos, "--metrics-listen", active], timeout=CHAOS_S)
    until_s = time.time()
    check = ("dashboards", "check", "--prometheus", prometheus_url, "--rate-interval", "20s")
    checked = subprocess.run([*HITCURVE, *check], cwd=REPOSITORY)
    bad_s = last_unhealthy(prometheus_url, since_s, until_s)
    for uids, at_s, chosen in (
        (("hitcurve-fleet",), bad_s, ()),
        (("hitcurve-capacity",), until_s, ()),
        (("hitcurve-replica", "hitcurve-chaos"), until_s, ("--var", "target=vllm-0")),
    ):
        options = ["--minutes", f"{(at_s - since_s) / 60:.1f}", "--at", f"{at_s:.0f}", *chosen]
        options += [word for uid in uids for word in ("--dashboard", uid)]
        options += ["--run", str(folder / "run")]
        print("take.py", *options)
        if pictures is not None:
            take = [sys.executable, str(Path(__file__).with_name("take.py")), "--prometheus", prometheus_url]
            subprocess.run([*take, *options, "--out", str(pictures)], check=True)
    if checked.returncode:
        raise SystemExit(checked.returncode)


def last_unhealthy(prometheus_url: str, since_s: float, until_s: float) -> float:
    """When an engine was last unhealthy (Unix seconds): the picture of the fleet then shows which one."""
    states = "|".join(sorted(UNHEALTHY_STATES))
    asked = {
        "query": f'hitcurve_curve_state{{state=~"{states}"}} == 1',
        "start": since_s,
        "end": until_s,
        "step": 1,
    }
    url = f"{prometheus_url}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
    with urllib.request.urlopen(url, timeout=START_S) as answer:
        found = json.load(answer)["data"]["result"]
    return max((float(at_s) for one in found for at_s, _ in one["values"]), default=until_s)


def started_engines(folder: Path, running: ExitStack) -> dict[str, RunningEngine]:
    """Two vLLM servers with the engine patch and its curve over pool sizes."""
    variables = {"PYTHONPATH": patch_path(folder / "patch"), "HITCURVE_POOL_CURVE": "on"}

    def start(name: str) -> RunningEngine:
        log = folder / "logs" / f"{name}.log"
        sizes = {"block_size": BLOCK_SIZE, "pool_blocks": POOL_BLOCKS, "seed": 1}
        engine = start_vllm(log, **sizes, options=ENGINE_OPTIONS, variables=variables, niceness=10)
        running.callback(engine.process.stop)
        return engine

    print("starting two vLLM servers (a minute)", flush=True)
    return {name: start(name) for name in ("vllm-0", "vllm-1")}


def patch_path(folder: Path) -> str:
    """A PYTHONPATH on which vLLM finds the engine patch of this checkout, as after an installation."""
    info = folder / "hitcurve-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hitcurve\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nhitcurve = hitcurve_engine.plugin:register\n")
    return os.pathsep.join(map(str, (folder, REPOSITORY / "engine_patch", REPOSITORY)))


def started_exporter(folder: Path, engines: dict[str, RunningEngine], running: ExitStack) -> str:
    """The exporter's address."""
    settings = {
        "listen": "127.0.0.1:0",
        "interval": "1s",
        "windows": ["5s", "30s", "5m"],
        "request_window": 200,
        "allow_marks": True,
        # Three faults in some minutes would themselves read as oscillating.
        "curve": {"swing_turns": 8, "swing_turns_signalled": 8},
        "targets": [{"name": name, "url": f"{engine.url}/metrics"} for name, engine in engines.items()],
    }
    file = folder / "exporter.yml"
    file.write_text(yaml.safe_dump(settings))
    command = [*HITCURVE, "exporter", "--config", str(file)]
    exporter = ChildProcess("the exporter", command, folder / "logs" / "exporter.log")
    running.callback(exporter.stop)
    url = exporter.start().wait_listening(START_S)
    exporter.wait_healthy(f"{url}/-/ready", START_S)
    return url


def started_prometheus(
    folder: Path, engines: dict[str, RunningEngine], exporter_url: str, active: str, running: ExitStack
) -> str:
    """The address of a Prometheus with the shipped configuration, but each second and with these targets."""
    shipped = REPOSITORY / "dashboards" / "prometheus"
    (folder / "rules").mkdir()
    for file in (shipped / "rules").glob("*.yml"):
        (folder / "rules" / file.name).write_text(file.read_text().replace("interval: 30s", "interval: 5s"))
    settings = yaml.safe_load((shipped / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "5s"}
    settings["rule_files"] = [str(folder / "rules" / "*.yml")]
    exporter, pages = settings["scrape_configs"]
    for job in (exporter, pages):
        del job["dns_sd_configs"]
    del exporter["file_sd_configs"]
    del pages["relabel_configs"]
    exporter["static_configs"] = [{"targets": [exporter_url.removeprefix("http://"), active]}]
    pages["static_configs"] = [
        {"targets": [engine.url.removeprefix("http://")], "labels": {"target": name}}
        for name, engine in engines.items()
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    address = free_address()
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--web.listen-address={address}"]
    command += [f"--storage.tsdb.path={folder / 'data'}"]
    prometheus = ChildProcess("Prometheus", command, folder / "logs" / "prometheus.log")
    running.callback(prometheus.stop)
    prometheus.start().wait_healthy(f"http://{address}/-/ready", START_S)
    return f"http://{address}"


def started_loads(folder: Path, engine: RunningEngine, rate: float, running: ExitStack) -> None:
    """Traffic of the model and of two adapters on the replica that no chaos touches."""
    for name, path in engine.adapters[:2]:
        body = json.dumps({"lora_name": name, "lora_path": path}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{engine.url}/v1/load_lora_adapter", body, headers)
        urllib.request.urlopen(request, timeout=START_S).close()
    models = (engine.model, *(name for name, _ in engine.adapters[:2]))
    options = ("--host", engine.url, "--duration", "3600", "--output-tokens", "4", "--max-lag", "5")
    sizes = ("--groups", "6", "--prefix-tokens", "640", "--suffix-tokens", "100")
    command = [*HITCURVE, "load", "shared-system-prompt", *options, *sizes, "--rate", str(rate)]
    command += [part for model in models for part in ("--model", model)]
    load = ChildProcess("the load", command, folder / "logs" / "load.log")
    running.callback(load.stop)
    load.start()


def suite_file(folder: Path) -> Path:
    suite = {"title": "A recorded run", "order": "listed", "parameters": TIMES, "scenarios": SCENARIOS}
    file = folder / "suite.yaml"
    file.write_text(yaml.safe_dump(suite))
    return file


def target_file(folder: Path, engine: RunningEngine, exporter_url: str, rate: float) -> Path:
    target: dict[str, Any] = {
        "name": "vllm-0",
        "engine": engine.url,
        "model": engine.model,
        "exporter": exporter_url,
        "exporter_target": "vllm-0",
        "load": {"profile": "shared-system-prompt", "rate": rate, **LOAD},
        "adapters": [{"name": name, "path": path} for name, path in engine.adapters],
    }
    file = folder / "targets.yaml"
    file.write_text(yaml.safe_dump({"targets": [target]}))
    return file


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


if __name__ == "__main__":
    main()
