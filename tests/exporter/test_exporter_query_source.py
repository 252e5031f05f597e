"""Counters out of a query API: a scripted one, and a real Prometheus."""

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from hitcurve_exporter.configuration.load import configuration_from_options
from hitcurve_exporter.configuration.records import ExporterConfig
from hitcurve_exporter.configuration.source_records import PrometheusSource

Start = Callable[..., Any]
Eventually = Callable[..., Any]
PageOf = Callable[..., str]
T0 = 1_800_000_000.0


@dataclass
class QueryApi:
    """Answers the two queries of the exporter from ``samples`` and ``up``; keeps what it was asked."""

    url: str
    samples: dict[tuple[str, str, str], list[tuple[float, float]]] = field(default_factory=dict)
    """(instance, name, engine) to samples (time, value)."""
    up: dict[str, int] = field(default_factory=dict)
    status: int = 200
    asked: list[tuple[dict[str, str], str]] = field(default_factory=list)

    def scraped(self, instance: str, at_s: float, queries: float, hits: float, engine: str = "0") -> None:
        """What Prometheus took at one scrape."""
        for name, value in (("queries", queries), ("hits", hits)):
            key = (instance, f"vllm:prefix_cache_{name}_total", engine)
            self.samples.setdefault(key, []).append((at_s, value))
        self.up.setdefault(instance, 1)

    def asked_again(self, eventually: Eventually) -> None:
        """Wait until two whole turns were taken."""
        before = len(self.asked)
        eventually(lambda: len(self.asked) >= before + 5)

    def answer(self, query: str) -> dict[str, Any]:
        if query.startswith("up"):
            result = [
                {"metric": {"__name__": "up", "job": "vllm", "instance": instance}, "value": [T0, str(value)]}
                for instance, value in self.up.items()
            ]
            return {"resultType": "vector", "result": result}
        matrix = [
            {
                "metric": {
                    "__name__": name,
                    "job": "vllm",
                    "instance": instance,
                    "engine": engine,
                    "model_name": 'ti"ny',
                },
                "values": [[at_s, str(value)] for at_s, value in values],
            }
            for (instance, name, engine), values in self.samples.items()
        ]
        return {"resultType": "matrix", "result": matrix}


@pytest.fixture
def query_api() -> Iterator[QueryApi]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            assert self.path == "/prometheus/api/v1/query"
            api.asked.append((dict(self.headers), form["query"][0]))
            body = json.dumps({"status": "success", "data": api.answer(form["query"][0])}).encode()
            self.send_response(api.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api = QueryApi(f"http://127.0.0.1:{server.server_port}/prometheus")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield api
    server.shutdown()
    server.server_close()


def asking(source: PrometheusSource) -> ExporterConfig:
    return configuration_from_options([], "100ms", source)


def of(instance: str, engine: str = "0") -> str:
    return f'target="vllm/{instance}",engine="{engine}",model_name="ti\\"ny"'


def test_every_scrape_of_prometheus_is_replayed_with_its_own_time(
    query_api: QueryApi, start_exporter: Start, eventually: Eventually
) -> None:
    for n, (queries, hits) in enumerate([(100_000, 90_000), (101_000, 90_100), (103_000, 90_200)]):
        query_api.scraped("a:8000", T0 + 15 * n, queries, hits)
    exporter = start_exporter(asking(PrometheusSource(query_api.url)))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    seen = exporter.samples()
    assert seen[f"hitcurve_query_tokens_total{{{of('a:8000')}}}"] == 3000
    assert seen[f'hitcurve_hit_rate_ratio{{{of("a:8000")},window="30s"}}'] == pytest.approx(200 / 3000)
    assert seen['hitcurve_last_success_timestamp_seconds{target="vllm/a:8000"}'] == T0 + 30
    query_api.scraped("a:8000", T0 + 45, 103_500, 90_700)
    query_api.asked_again(eventually)
    seen = exporter.samples()
    assert seen[f"hitcurve_query_tokens_total{{{of('a:8000')}}}"] == 3500
    query_api.asked_again(eventually)
    assert exporter.samples() | {} != {}
    assert exporter.samples()[f"hitcurve_query_tokens_total{{{of('a:8000')}}}"] == 3500


def test_a_target_that_left_is_gone_and_one_that_is_down_has_no_rate(
    query_api: QueryApi, start_exporter: Start, eventually: Eventually
) -> None:
    for n in range(2):
        for instance in ("a:1", "b:1"):
            query_api.scraped(instance, T0 + 15 * n, 100 * n, 50 * n)
    exporter = start_exporter(asking(PrometheusSource(query_api.url)))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    assert exporter.samples()["hitcurve_exporter_targets"] == 2
    del query_api.up["b:1"]
    query_api.up["a:1"] = 0
    query_api.asked_again(eventually)
    seen = exporter.samples()
    assert not [name for name in seen if "b:1" in name]
    assert seen['hitcurve_up{target="vllm/a:1"}'] == 0
    assert f'hitcurve_hit_rate_ratio{{{of("a:1")},window="30s"}}' not in seen
    assert seen[f"hitcurve_query_tokens_total{{{of('a:1')}}}"] == 100
    query_api.up["a:1"] = 1
    query_api.scraped("a:1", T0 + 30, 300, 100)
    query_api.asked_again(eventually)
    seen = exporter.samples()
    assert seen['hitcurve_up{target="vllm/a:1"}'] == 1
    assert seen[f"hitcurve_query_tokens_total{{{of('a:1')}}}"] == 300


def test_a_server_that_fails_takes_the_rates_away_and_no_tokens(
    query_api: QueryApi, start_exporter: Start, eventually: Eventually
) -> None:
    for n in range(2):
        query_api.scraped("a:1", T0 + 15 * n, 100 * n, 50 * n)
    exporter = start_exporter(asking(PrometheusSource(query_api.url)))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    query_api.status = 503
    query_api.asked_again(eventually)
    (target,) = exporter.engines()["targets"]
    assert (target["up"], target["failure_detail"]) == (False, "the query failed: HTTP 503")
    query_api.status = 200
    query_api.scraped("a:1", T0 + 60, 500, 350)
    query_api.asked_again(eventually)
    seen = exporter.samples()
    assert seen[f"hitcurve_query_tokens_total{{{of('a:1')}}}"] == 500
    assert seen[f"hitcurve_hit_tokens_total{{{of('a:1')}}}"] == 350


def test_a_scrape_that_is_only_half_there_is_waited_for(
    query_api: QueryApi, start_exporter: Start, eventually: Eventually
) -> None:
    query_api.scraped("a:1", T0, 0, 0)
    exporter = start_exporter(asking(PrometheusSource(query_api.url)))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    with_hits = {key: list(values) for key, values in query_api.samples.items()}
    queries = query_api.samples[("a:1", "vllm:prefix_cache_queries_total", "0")]
    queries.append((T0 + 15, 100.0))
    asked = len(query_api.asked)
    eventually(lambda: len(query_api.asked) > asked)
    with_hits[("a:1", "vllm:prefix_cache_queries_total", "0")] = list(queries)
    query_api.samples[("a:1", "vllm:prefix_cache_hits_total", "0")].append((T0 + 15, 60.0))
    query_api.asked_again(eventually)
    seen = exporter.samples()
    assert seen[f"hitcurve_hit_tokens_total{{{of('a:1')}}}"] == 60
    assert seen['hitcurve_scrape_errors_total{target="vllm/a:1",reason="not_metrics"}'] == 0


def test_matchers_and_headers_go_along_and_the_credentials_are_read_each_time(
    query_api: QueryApi, start_exporter: Start, eventually: Eventually, tmp_path: Path
) -> None:
    secret = tmp_path / "authorization"
    secret.write_text("Bearer one\n")
    source = PrometheusSource(query_api.url, 'job="vllm"', (("X-Scope-OrgID", "team"),), str(secret))
    exporter = start_exporter(asking(source))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    headers, query = query_api.asked[0]
    assert headers["Authorization"] == "Bearer one"
    assert headers["X-Scope-OrgID"] == "team"
    assert query.startswith('{__name__=~"')
    assert query.endswith('", job="vllm"}[300s]')
    assert query_api.asked[1][1] == 'up{job="vllm"}'
    secret.write_text("Bearer two\n")
    query_api.asked_again(eventually)
    assert query_api.asked[-1][0]["Authorization"] == "Bearer two"
    assert query_api.asked[-2][1].endswith("[30s]") or query_api.asked[-1][1].endswith("[30s]")


@pytest.mark.real_prometheus
def test_a_real_prometheus_tells_the_same_as_the_engine(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, tmp_path: Path
) -> None:
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("prometheus is not installed; on Debian it is the package prometheus")
    started_s = time.time() - 60
    engine = scripted_engine(page_of(9000, 8100, 10, start_s=started_s))
    host = engine.url.removeprefix("http://")
    config = tmp_path / "prometheus.yml"
    job = {"job_name": "vllm", "scrape_interval": "300ms", "scrape_timeout": "300ms"}
    config.write_text(yaml.safe_dump({"scrape_configs": [{**job, "static_configs": [{"targets": [host]}]}]}))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = [
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path}/tsdb",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([binary, *options], stdout=log, stderr=log)
    try:
        eventually(lambda: answers(f"{url}/-/ready"))
        exporter = start_exporter(asking(PrometheusSource(url)))
        labels = f'target="vllm/{host}",engine="0",model_name="tiny"'
        eventually(lambda: f"hitcurve_query_tokens_total{{{labels}}}" in exporter.samples())
        engine.page = page_of(9100, 8190, 12, start_s=started_s)
        engine.scraped_again()
        engine.page = page_of(1000, 200, 3, start_s=time.time())
        eventually(lambda: exporter.samples()[f"hitcurve_query_tokens_total{{{labels}}}"] == 1100)
        seen = exporter.samples()
        assert seen[f"hitcurve_hit_tokens_total{{{labels}}}"] == 290
        assert seen[f"hitcurve_engine_restarts_total{{{labels}}}"] == 1
        engine.status = 500
        eventually(lambda: exporter.samples()[f'hitcurve_up{{target="vllm/{host}"}}'] == 0)
    finally:
        process.terminate()
        process.wait(20)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
