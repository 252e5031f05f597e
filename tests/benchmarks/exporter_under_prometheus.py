"""A real Prometheus scrapes an exporter that scrapes 1,000 engines: no gap, share of a core, memory.

    python tests/benchmarks/exporter_under_prometheus.py [--seconds 600]

Engines answer pages of 1,000 lines; both scrape every 15 s. Prints one JSON object; exit 1 where
a sample is missing.
"""

import argparse
import json
import multiprocessing
import shutil
import socket
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from exporter_service import ENGINES, INTERVAL_S, cpu_seconds, serve_engines

from hitcurve.child import ChildProcess


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def ask(url: str, query: str) -> list[Any]:
    with urllib.request.urlopen(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}") as answer:
        result: list[Any] = json.load(answer)["data"]["result"]
        return result


def value(url: str, query: str) -> float:
    (one,) = ask(url, query)
    return float(one["value"][1])


def run(seconds: float, folder: Path) -> dict[str, object]:
    here, there = multiprocessing.Pipe()
    engines = multiprocessing.Process(target=serve_engines, args=(there,), daemon=True)
    engines.start()
    port = here.recv()
    config = folder / "exporter.yaml"
    targets = [f"  - {{url: 'http://127.0.0.1:{port}/{n}/metrics', name: engine-{n}}}" for n in range(ENGINES)]
    config.write_text("\n".join(["listen: 127.0.0.1:0", f"interval: {INTERVAL_S:g}s", "targets:", *targets, ""]))
    command = [sys.executable, "-m", "hitcurve", "exporter", "--config", str(config)]
    with ChildProcess("the exporter", command, folder / "exporter.log") as exporter:
        url = exporter.wait_listening(60)
        exporter.wait_healthy(f"{url}/-/ready", 120)
        process_id = int(exporter.process_id or 0)
        rules = folder / "prometheus.yml"
        host = url.removeprefix("http://")
        rules.write_text(
            f"global: {{scrape_interval: {INTERVAL_S:g}s}}\n"
            f"scrape_configs: [{{job_name: hitcurve, static_configs: [{{targets: ['{host}']}}]}}]\n"
        )
        server = f"127.0.0.1:{free_port()}"
        options = [
            f"--config.file={rules}",
            f"--storage.tsdb.path={folder}/tsdb",
            f"--web.listen-address={server}",
        ]
        with ChildProcess("prometheus", ["prometheus", *options], folder / "prometheus.log") as prometheus:
            prometheus.wait_healthy(f"http://{server}/-/ready", 60)
            first_cpu, began = cpu_seconds(process_id), time.monotonic()
            time.sleep(seconds)
            share = (cpu_seconds(process_id) - first_cpu) / (time.monotonic() - began)
            found = judge(f"http://{server}", seconds)
    engines.terminate()
    status = Path(f"/proc/{process_id}/status")
    assert not status.exists()
    return {"seconds": seconds, "core_share": round(share, 4), **found}


def judge(url: str, seconds: float) -> dict[str, object]:
    """What Prometheus holds of the whole time but its first two scrapes."""
    range_ = f"[{int(seconds - 2 * INTERVAL_S)}s]"
    scrapes = value(url, f"count_over_time(up{range_})")
    fewest = value(url, f"min(count_over_time(hitcurve_up{range_}))")
    age = "(time() - hitcurve_last_success_timestamp_seconds)"
    result = {
        "engines": value(url, "count(hitcurve_up)"),
        "scrapes_of_prometheus": scrapes,
        "failed_scrapes": scrapes - value(url, f"sum_over_time(up{range_})"),
        "fewest_samples_of_an_engine": fewest,
        "lowest_up": value(url, f"min(min_over_time(hitcurve_up{range_}))"),
        "oldest_scrape_s": round(value(url, f"max(max_over_time({age}[{range_[1:-1]}:15s]))"), 1),
        "turns_left_out": value(url, "sum(hitcurve_scrapes_skipped_total)"),
        "peak_memory_mb": round(value(url, f"max_over_time(process_resident_memory_bytes{range_})") / 2**20, 1),
        "slowest_page_s": round(value(url, f"max_over_time(scrape_duration_seconds{range_})"), 3),
        "samples_per_page": value(url, "scrape_samples_scraped"),
    }
    if result["failed_scrapes"] or fewest < scrapes or result["lowest_up"] != 1 or result["engines"] != ENGINES:
        print(json.dumps(result))
        raise SystemExit("there is a gap")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    chosen = parser.parse_args()
    if shutil.which("prometheus") is None:
        raise SystemExit("prometheus is not installed; on Debian it is the package prometheus")
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(run(chosen.seconds, Path(name))))
