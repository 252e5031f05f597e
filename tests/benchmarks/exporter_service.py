"""Benchmark of the exporter: ``python tests/benchmarks/exporter_service.py parse|poll|page|memory|service``.

``parse``    reading the recorded page of a real vLLM, beside prometheus_client.
``poll``     CPU time of one poll of one engine without the network: page read, curve judged, samples rendered.
``page``     time of one /metrics page of 1,000 engines, and of its compression.
``memory``   resident memory once 1,000 engines were scraped for an hour; takes two minutes.
``service``  the whole service, 1,000 engines every 15 s, pages of 1,000 lines over HTTP: share of a core, memory,
             oldest scrape. Takes ``--seconds`` (90).

Results are in docs/benchmarks.md.
"""

import argparse
import gc
import gzip
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from hitcurve.child import ChildProcess
from hitcurve.readers import read_page
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.fleet import fleet_of
from hitcurve_exporter.page.document import TEXT, page
from hitcurve_exporter.page.exporter_samples import fleet_lines
from hitcurve_exporter.scraping.core_monitor import core_monitor
from hitcurve_exporter.scraping.fetched import Fetched
from hitcurve_exporter.scraping.watched_target import InternalErrors, WatchedTarget

ENGINES = 1_000
INTERVAL_S = 15.0
SCRAPES_OF_AN_HOUR = 245
LABELS = 'engine="0",model_name="some-organisation/some-model-70b-instruct"'


def engine_page(queries: int, hits: int, requests: int) -> bytes:
    """A page of 1,000 lines and about 100 kB, as a vLLM server of one engine prints."""
    lines = [
        "# TYPE process_start_time_seconds gauge",
        "process_start_time_seconds 1.7e+09",
        f"vllm:prefix_cache_queries_total{{{LABELS}}} {queries}.0",
        f"vllm:prefix_cache_hits_total{{{LABELS}}} {hits}.0",
        f"vllm:num_requests_running{{{LABELS}}} 4.0",
        f"vllm:num_requests_waiting{{{LABELS}}} 0.0",
        f"vllm:kv_cache_usage_perc{{{LABELS}}} 0.25",
        f"vllm:num_preemptions_total{{{LABELS}}} 0.0",
        f"vllm:time_to_first_token_seconds_count{{{LABELS}}} {requests}.0",
        f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="32000",{LABELS}}} 1.0',
    ]
    for index in range(1_000 - len(lines)):
        name = f"vllm:histogram_number_{index // 30}_seconds_bucket"
        lines.append(f'{name}{{{LABELS},le="{index % 30 / 10}"}} {requests * (index % 30)}.0')
    return "\n".join([*lines, ""]).encode()


def targets() -> list[TargetConfig]:
    urls = [f"http://engine-{n}:8000" for n in range(ENGINES)]
    return [TargetConfig(url, f"{url}/metrics", f"engine-{n}") for n, url in enumerate(urls)]


def watched(scrapes: int) -> tuple[list[WatchedTarget], list[float]]:
    """Targets after that many scrapes, and the CPU seconds of each poll of the last half."""
    config = ExporterConfig(tuple(targets()))
    errors = InternalErrors()
    pairs = [(WatchedTarget(target, 256, errors), core_monitor(target, config)) for target in config.targets]
    spent = []
    for scrape in range(scrapes):
        body = engine_page(1_000 * scrape, 700 * scrape, 5 * scrape)
        at_s = 1_800_000_000.0 + scrape * INTERVAL_S
        for target, monitor in pairs:
            fetched = Fetched(at_s, at_s, 0.01, 200, "text/plain; version=0.0.4", body)
            began = time.process_time()
            target.take(fetched, monitor.observe(fetched))
            if scrape >= scrapes // 2:
                spent.append(time.process_time() - began)
    return [target for target, _ in pairs], spent


def poll(_: float) -> None:
    _, spent = watched(20)
    print(json.dumps({"engines": ENGINES, "poll_ms": summary(spent), "page_bytes": len(engine_page(1, 1, 1))}))


def parse(_: float) -> None:
    """The recorded page of a real vLLM: our reader beside prometheus_client's parser."""
    recorded = (Path(__file__).parent.parent / "core" / "vllm_0.32.0_page.prom").read_text()
    readers: dict[str, Callable[[], object]] = {
        "hitcurve_ms": lambda: read_page(recorded, "text/plain", at_s=1.0, monotonic_s=1.0),
        "prometheus_client_ms": lambda: list(text_string_to_metric_families(recorded)),
    }
    spent: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(60):
        for name, read in readers.items():
            began = time.process_time()
            read()
            spent[name].append(time.process_time() - began)
    lines = {"lines": recorded.count("\n"), "bytes": len(recorded)}
    print(json.dumps(lines | {name: summary(times) for name, times in spent.items()}))


def memory(_: float) -> None:
    """Resident memory once the windows and the curve hold an hour."""
    before = resident_mb()
    known, _ = watched(SCRAPES_OF_AN_HOUR)
    grown = resident_mb() - before
    print(
        json.dumps(
            {
                "engines": len(known),
                "scrapes": SCRAPES_OF_AN_HOUR,
                "kb_per_engine": round(1024 * grown / len(known), 1),
                "resident_mb": round(before + grown, 1),
            }
        )
    )


def resident_mb() -> float:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def page_time(_: float) -> None:
    known, _ = watched(4)
    built, compressed = [], []
    for _ in range(21):
        began = time.perf_counter()
        fleet = fleet_of(reading for target in known for reading in target.readings)
        text = page([*(target.lines for target in known), fleet_lines(fleet)], TEXT)
        built.append(time.perf_counter() - began)
        began = time.perf_counter()
        small = gzip.compress(text, 1)
        compressed.append(time.perf_counter() - began)
    samples = sum(1 for line in text.splitlines() if not line.startswith(b"#"))
    print(
        json.dumps(
            {
                "engines": ENGINES,
                "samples": samples,
                "bytes": len(text),
                "gzip_bytes": len(small),
                "page_ms": summary(built),
                "gzip_ms": summary(compressed),
            }
        )
    )


def serve_engines(ready: Connection) -> None:
    """All engines behind one port; counters follow the clock."""
    began = time.time()

    async def answer(request: web.Request) -> web.Response:
        requests = int((time.time() - began) * 5)
        body = engine_page(1_000 * requests, 700 * requests, requests)
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app = web.Application()
    app.router.add_get("/{engine}/metrics", answer)
    listening = socket.create_server(("127.0.0.1", 0), backlog=2_048)
    ready.send(listening.getsockname()[1])
    web.run_app(app, sock=listening, print=None, handle_signals=False)


def service(seconds: float) -> None:
    here, there = multiprocessing.Pipe()
    engines = multiprocessing.Process(target=serve_engines, args=(there,), daemon=True)
    engines.start()
    port = here.recv()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exporter.yaml"
        lines = [f"  - {{url: 'http://127.0.0.1:{port}/{n}/metrics', name: engine-{n}}}" for n in range(ENGINES)]
        file.write_text("\n".join(["listen: 127.0.0.1:0", f"interval: {INTERVAL_S:g}s", "targets:", *lines, ""]))
        command = [sys.executable, "-m", "hitcurve", "exporter", "--config", str(file)]
        with ChildProcess("the exporter", command, Path(folder) / "log") as exporter:
            url = exporter.wait_listening(60)
            exporter.wait_healthy(f"{url}/-/ready", 120)
            print(json.dumps(observe(url, int(exporter.process_id or 0), seconds)))
    engines.terminate()


def observe(url: str, process_id: int, seconds: float) -> dict[str, object]:
    """Scrape the exporter as Prometheus would while it works; its CPU share, memory and oldest scrape."""
    first_cpu, began = cpu_seconds(process_id), time.monotonic()
    oldest, pages = 0.0, []
    while time.monotonic() < began + seconds:
        asked = time.perf_counter()
        request = urllib.request.Request(f"{url}/metrics", headers={"Accept-Encoding": "gzip"})
        urllib.request.urlopen(request).read()
        pages.append(time.perf_counter() - asked)
        at = time.time()
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            text = answer.read().decode()
        name = "hitcurve_last_success_timestamp_seconds{"
        stamps = [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name)]
        assert len(stamps) == ENGINES
        oldest = max(oldest, at - min(stamps))
        time.sleep(INTERVAL_S - (time.perf_counter() - asked))
    wall = time.monotonic() - began
    status = Path(f"/proc/{process_id}/status").read_text()
    return {
        "engines": ENGINES,
        "interval_s": INTERVAL_S,
        "seconds": round(wall, 1),
        "core_share": round((cpu_seconds(process_id) - first_cpu) / wall, 4),
        "peak_memory_mb": int(status.split("VmHWM:")[1].split()[0]) / 1024,
        "oldest_scrape_s": round(oldest, 2),
        "page_over_http_ms": summary(pages),
    }


def cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(seconds: list[float]) -> dict[str, float]:
    """Milliseconds: median, and the middle 90 %."""
    cuts = statistics.quantiles(seconds, n=20)
    return {
        name: round(1_000 * value, 3) for name, value in (("p5", cuts[0]), ("p50", cuts[9]), ("p95", cuts[18]))
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measures = {"parse": parse, "poll": poll, "page": page_time, "memory": memory, "service": service}
    parser.add_argument("what", choices=[*measures, "all"], nargs="?", default="all")
    parser.add_argument("--seconds", type=float, default=90.0)
    chosen = parser.parse_args()
    for name, measure in measures.items():
        if chosen.what in (name, "all"):
            measure(chosen.seconds)
