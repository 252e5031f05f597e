"""Scripted engines on the loopback interface, and the exporter running in a thread."""

import asyncio
import gzip
import json
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hitcurve_exporter.clock import SystemClock
from hitcurve_exporter.configuration.load import configuration_from_options
from hitcurve_exporter.configuration.records import ExporterConfig, ListenAddress
from hitcurve_exporter.scraping.core_monitor import core_monitor
from hitcurve_exporter.scraping.monitoring import MonitorFactory
from hitcurve_exporter.service import ExporterService

DEADLINE_S = 20.0


def vllm_page(queries: float, hits: float, requests: float = 0, engine: str = "0", start_s: float = 1000.0) -> str:
    """The part of a vLLM page that a hit rate needs."""
    labels = f'{{engine="{engine}",model_name="tiny"}}'
    return f"""# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds {start_s}
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{labels} {float(queries)}
# HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{labels} {float(hits)}
# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{{engine="{engine}",le="+Inf",model_name="tiny"}} {float(requests)}
vllm:time_to_first_token_seconds_count{labels} {float(requests)}
vllm:time_to_first_token_seconds_sum{labels} {float(requests) / 10}
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{labels} 3.0
"""


def wait_until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """The value of a condition once it holds; fails after a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} never held"
        time.sleep(0.02)
    return value


@dataclass
class ScriptedEngine:
    """Answers every GET with ``page`` now; counts the GETs and keeps their headers."""

    url: str
    page: str | bytes = ""
    status: int = 200
    content_type: str = "text/plain; version=0.0.4; charset=utf-8"
    delay_s: float = 0.0
    extra_headers: dict[str, str] = field(default_factory=dict)
    headers_seen: list[dict[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def scrapes(self) -> int:
        return len(self.headers_seen)

    @property
    def labels(self) -> str:
        """Label text of what the exporter says about engine 0 of ``vllm_page``."""
        return f'target="{self.url}",engine="0",model_name="tiny"'

    def scraped_again(self, times: int = 2) -> None:
        """Wait until a page that was asked for from now on has been taken."""
        before = self.scrapes
        wait_until(lambda: self.scrapes >= before + times, "another scrape")


@pytest.fixture
def scripted_engine() -> Iterator[Callable[..., ScriptedEngine]]:
    """Starts engines; a ``delay_s`` ends early when the test does."""
    servers: list[tuple[ThreadingHTTPServer, ScriptedEngine]] = []

    def start(page: str | bytes = "", **settings: Any) -> ScriptedEngine:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                engine.headers_seen.append(dict(self.headers))
                if engine.delay_s:
                    engine.released.wait(engine.delay_s)
                body = engine.page.encode() if isinstance(engine.page, str) else engine.page
                self.send_response(engine.status)
                self.send_header("Content-Type", engine.content_type)
                for name, value in engine.extra_headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that hangs up early is part of the tests."""

        server = Server(("127.0.0.1", 0), Handler)
        engine = ScriptedEngine(f"http://127.0.0.1:{server.server_port}", page, **settings)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append((server, engine))
        return engine

    yield start
    for server, engine in servers:
        engine.released.set()
        server.shutdown()
        server.server_close()


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        compressed = self.headers.get("Content-Encoding") == "gzip"
        return (gzip.decompress(self.body) if compressed else self.body).decode()

    def json(self) -> Any:
        return json.loads(self.text)


class RunningExporter:
    """The service in a thread with an event loop of its own."""

    def __init__(
        self,
        config: ExporterConfig,
        read_again: Callable[[], ExporterConfig] | None,
        monitor_factory: MonitorFactory,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def start() -> ExporterService:
            service = ExporterService(config, read_again, monitor_factory, SystemClock())
            self.url = await service.start(config.listen)
            return service

        self.service = self._await(start())

    def _await(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def ask(self, path: str, data: bytes | None = None, **headers: str) -> Answer:
        """One request; a header ``Content_Type`` is sent as ``Content-Type``."""
        spelled = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data=data, headers=spelled)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read())

    def engines(self) -> Any:
        return self.ask("/api/v1/engines").json()

    def samples(self) -> dict[str, float]:
        """The sample lines of /metrics."""
        lines = self.ask("/metrics").text.splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def stop(self) -> None:
        self._await(self.service.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()


@pytest.fixture
def start_exporter() -> Iterator[Callable[..., RunningExporter]]:
    """Starts exporters and stops them; listens on a free port whatever the configuration says."""
    running: list[RunningExporter] = []

    def start(
        config: ExporterConfig,
        read_again: Callable[[], ExporterConfig] | None = None,
        monitor_factory: MonitorFactory | None = None,
        host: str = "127.0.0.1",
    ) -> RunningExporter:
        config = replace(config, listen=ListenAddress(host, 0))
        exporter = RunningExporter(config, read_again, monitor_factory or core_monitor)
        running.append(exporter)
        return exporter

    yield start
    for exporter in running:
        exporter.stop()


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any]], Any]:
    """Waits until a condition holds and returns its value; fails after a deadline."""

    return wait_until


@pytest.fixture
def page_of() -> Callable[..., str]:
    """``vllm_page`` for the test files."""
    return vllm_page


@pytest.fixture(scope="session")
def make_certificate() -> Callable[..., None]:
    """Makes ``NAME.crt`` and ``NAME.key`` for 127.0.0.1, signed by itself or by another one made before."""

    def make(folder: Path, name: str, signed_by: str | None = None) -> None:
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt")]
        subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        if signed_by is not None:
            subject += ["-CA", str(folder / f"{signed_by}.crt"), "-CAkey", str(folder / f"{signed_by}.key")]
        subprocess.run([*command, *files, *subject], check=True, capture_output=True)

    return make


@pytest.fixture
def watching() -> Callable[..., ExporterConfig]:
    """A configuration that scrapes ten times a second; addresses, then ``interval`` and other fields."""

    def configure(*urls: str, interval: str = "100ms", **others: Any) -> ExporterConfig:
        settings = {"windows_s": (30.0, 300.0), "timeout_s": 5.0, **others}
        return replace(configuration_from_options(urls, interval), **settings)

    return configure
