"""A real Prometheus scrapes the exporter, which scrapes a scripted engine: PromQL answers worked out by hand.

The engine serves two data-parallel ranks. Counters as it prints them (queries/hits, in tokens):

    moment      rank 0         rank 1         what hitcurve must add up to
    start       9000/8100      4000/400       0/0            0/0
    burst       9100/8190      4900/490       100/90         900/90
    restarted   1000/200       500/450        1100/290       1400/540
"""

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from hitcurve.child import ChildProcess
from hitcurve.reading import STATES

pytestmark = pytest.mark.real_prometheus

DEADLINE_S = 30.0
Counters = dict[str, tuple[int, int]]
START: Counters = {"0": (9000, 8100), "1": (4000, 400)}
BURST: Counters = {"0": (9100, 8190), "1": (4900, 490)}
RESTARTED: Counters = {"0": (1000, 200), "1": (500, 450)}


def page(ranks: Counters, started_s: float) -> bytes:
    """A vLLM page of several ranks."""
    lines = ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {started_s:.2f}"]
    for position, name in enumerate(("queries", "hits")):
        lines.append(f"# TYPE vllm:prefix_cache_{name}_total counter")
        for rank, counters in ranks.items():
            labels = f'{{engine="{rank}",model_name="tiny"}}'
            lines.append(f"vllm:prefix_cache_{name}_total{labels} {counters[position]}.0")
    return "\n".join([*lines, ""]).encode()


class Engine:
    """Serves ``body``."""

    def __init__(self, body: bytes) -> None:
        self.body = body

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:  # noqa: N805
                handler.send_response(200)
                handler.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                handler.end_headers()
                handler.wfile.write(self.body)

            def log_message(handler, format: str, *args: Any) -> None:  # noqa: N805
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


@dataclass
class Prometheus:
    """Asks a running Prometheus."""

    url: str

    def ask(self, query: str, at_s: float | None = None) -> dict[tuple[tuple[str, str], ...], float]:
        """Value by labels, without name, instance and job."""
        parameters = {"query": query} | ({} if at_s is None else {"time": f"{at_s:.3f}"})
        with urllib.request.urlopen(
            f"{self.url}/api/v1/query?{urllib.parse.urlencode(parameters)}", timeout=DEADLINE_S
        ) as answer:
            results = json.load(answer)["data"]["result"]
        ours = [
            tuple(sorted(pair for pair in one["metric"].items() if pair[0] not in ("__name__", "instance", "job")))
            for one in results
        ]
        return dict(zip(ours, (float(one["value"][1]) for one in results), strict=True))

    def by_rank(self, query: str, at_s: float | None = None) -> dict[str, float]:
        """Value by the label ``engine``."""
        return {dict(labels)["engine"]: value for labels, value in self.ask(query, at_s).items()}


@dataclass
class Story:
    """What happened, and when; every later query looks at one of these moments."""

    prometheus: Prometheus
    exporter_url: str
    burst_s: float
    restarted_s: float
    left_s: float


def wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.1)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def start_prometheus(program: str, folder: Path, exporter_url: str) -> tuple[ChildProcess, Prometheus]:
    target = exporter_url.removeprefix("http://")
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "hitcurve", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    process = ChildProcess("prometheus", command, folder / "prometheus.log").start()
    process.wait_healthy(f"http://{address}/-/ready", DEADLINE_S)
    return process, Prometheus(f"http://{address}")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Runs start, burst, restart and a target's leaving once; the tests only ask Prometheus about it."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed; on Debian it is the package prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    old_s = time.time() - 3600
    ranks, idle = Engine(page(START, old_s)), Engine(page({"0": (10, 5)}, old_s))
    file = folder / "exporter.yaml"
    settings: dict[str, Any] = {
        "listen": "127.0.0.1:0",
        "interval": "500ms",
        "windows": ["30s", "5m"],
        "targets": [{"url": ranks.url, "name": "ranks"}, {"url": idle.url, "name": "idle"}],
    }
    file.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "hitcurve", "exporter", "--config", str(file)]
    exporter = ChildProcess("the exporter", command, folder / "exporter.log").start()
    started: ChildProcess | None = None
    try:
        url = exporter.wait_listening(DEADLINE_S)
        exporter.wait_healthy(f"{url}/-/ready", DEADLINE_S)
        started, prometheus = start_prometheus(program, folder, url)
        seen = 'count_over_time(hitcurve_query_tokens_total{target="ranks"}[1m])'
        wait(lambda: set(prometheus.by_rank(seen).values()) >= {2.0}, "two scrapes by Prometheus")

        ranks.body = page(BURST, old_s)
        hits = 'hitcurve_hit_tokens_total{target="ranks"}'
        wait(lambda: prometheus.by_rank(hits) == {"0": 90.0, "1": 90.0}, "the burst")
        burst_s = time.time()

        ranks.body = page(RESTARTED, time.time())
        wait(lambda: prometheus.by_rank(hits) == {"0": 290.0, "1": 540.0}, "the restart")
        restarted_s = time.time()

        settings["targets"].pop()
        file.write_text(yaml.safe_dump(settings))
        urllib.request.urlopen(f"{url}/-/reload", data=b"", timeout=DEADLINE_S).close()
        wait(lambda: prometheus.ask('hitcurve_up{target="idle"}') == {}, "the end of the idle target")
        yield Story(prometheus, url, burst_s, restarted_s, time.time())
    finally:
        if started is not None:
            started.stop()
        exporter.stop()
        for engine in (ranks, idle):
            engine.server.shutdown()
            engine.server.server_close()


def test_prometheus_finds_the_page_good(story: Story, promtool: str) -> None:
    assert story.prometheus.ask("up") == {(): 1.0}
    with urllib.request.urlopen(f"{story.exporter_url}/metrics", timeout=DEADLINE_S) as answer:
        text = answer.read()
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_rates_of_tokens_give_the_hit_rate_of_each_rank(story: Story) -> None:
    of_ranks = '{target="ranks"}[5m]'
    query = f"rate(hitcurve_hit_tokens_total{of_ranks}) / rate(hitcurve_query_tokens_total{of_ranks})"
    assert story.prometheus.by_rank(query, story.burst_s) == pytest.approx({"0": 0.9, "1": 0.1})
    after = story.prometheus.by_rank(query, story.restarted_s)
    assert after == pytest.approx({"0": 290 / 1100, "1": 540 / 1400})


def test_the_fleet_is_a_ratio_of_sums(story: Story) -> None:
    query = "sum(rate(hitcurve_hit_tokens_total[5m])) / sum(rate(hitcurve_query_tokens_total[5m]))"
    assert story.prometheus.ask(query, story.burst_s) == {(): pytest.approx(0.18)}
    fleet = story.prometheus.ask('hitcurve_fleet_hit_rate_ratio{window="30s"}', story.burst_s)
    assert fleet == {(("window", "30s"),): pytest.approx(0.18)}


def test_the_exporters_own_window_agrees(story: Story) -> None:
    rates = story.prometheus.by_rank('hitcurve_hit_rate_ratio{target="ranks",window="30s"}', story.burst_s)
    assert rates == pytest.approx({"0": 0.9, "1": 0.1})
    cumulative = story.prometheus.by_rank('hitcurve_cumulative_hit_rate_ratio{target="ranks"}', story.burst_s)
    assert cumulative == pytest.approx({"0": 8190 / 9100, "1": 490 / 4900})


def test_an_idle_engine_has_no_rate_and_a_counter_at_zero(story: Story) -> None:
    assert story.prometheus.ask('hitcurve_hit_rate_ratio{target="idle"}', story.restarted_s) == {}
    assert story.prometheus.by_rank('hitcurve_query_tokens_total{target="idle"}', story.restarted_s) == {"0": 0.0}


def test_the_first_burst_is_not_lost(story: Story) -> None:
    """DR-15: the counters exist at 0 before the first tokens."""
    query = 'increase(hitcurve_query_tokens_total{target="ranks"}[1m]) > bool 0'
    assert story.prometheus.by_rank(query, story.burst_s) == {"0": 1.0, "1": 1.0}
    first = 'min_over_time(hitcurve_query_tokens_total{target="ranks"}[5m])'
    assert story.prometheus.by_rank(first, story.burst_s) == {"0": 0.0, "1": 0.0}


def test_a_restart_is_counted_and_no_counter_falls(story: Story) -> None:
    restarts = 'hitcurve_engine_restarts_total{target="ranks"}'
    assert story.prometheus.by_rank(restarts, story.burst_s) == {"0": 0.0, "1": 0.0}
    assert story.prometheus.by_rank(restarts, story.restarted_s) == {"0": 1.0, "1": 1.0}
    seen = story.prometheus.by_rank(f"increase({restarts}[5m]) > bool 0", story.restarted_s)
    assert seen == {"0": 1.0, "1": 1.0}
    tokens = 'hitcurve_query_tokens_total{target="ranks"}'
    assert story.prometheus.by_rank(f"resets({tokens}[5m])", story.restarted_s) == {"0": 0.0, "1": 0.0}
    assert story.prometheus.by_rank(tokens, story.restarted_s) == {"0": 1100.0, "1": 1400.0}


def test_an_engine_is_always_in_one_state(story: Story) -> None:
    prometheus = story.prometheus
    for moment in (story.burst_s, story.restarted_s):
        states = prometheus.ask('hitcurve_curve_state{target="ranks",engine="0"}', moment)
        assert {dict(labels)["state"] for labels in states} == set(STATES)
        assert prometheus.by_rank('sum by (engine) (hitcurve_curve_state{target="ranks"})', moment) == {
            "0": 1.0,
            "1": 1.0,
        }
    (now,) = prometheus.ask('hitcurve_curve_state{target="ranks",engine="0"} == 1', story.restarted_s)
    assert dict(now)["state"] == "cold"
    (cause,) = prometheus.ask('hitcurve_curve_cause{target="ranks",engine="0"} == 1', story.restarted_s)
    assert dict(cause)["cause"] == "restart"


def test_a_target_that_left_is_gone_at_once_and_was_there_before(story: Story) -> None:
    """EXP-29: stale at the next scrape, not after five minutes of lookback."""
    gone = '{target="idle",__name__=~"hitcurve_.*"}'
    assert len(story.prometheus.ask(f"count({gone})", story.restarted_s)) == 1
    assert story.prometheus.ask(f"count({gone})", story.left_s) == {}
    assert story.prometheus.ask('hitcurve_up{target="ranks"}', story.left_s) == {(("target", "ranks"),): 1.0}


def test_every_query_of_the_documentation_is_answered(story: Story, repository: Path) -> None:
    text = (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
    block = text.partition("## Questions and queries")[2].split("```")[1]
    queries = [line for line in block.splitlines() if line and not line.startswith("#")]
    answers = {query: story.prometheus.ask(query, story.restarted_s) for query in queries}
    empty = {query for query, found in answers.items() if not found}
    assert len(queries) == 5
    assert empty == {query for query in queries if "hitcurve_up == 0" in query or "group_left" in query}
