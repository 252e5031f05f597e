"""Every query on a real Prometheus that scrapes a simulated fleet; alerts follow what happens."""

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hitcurve.errors import EnvironmentFailed
from hitcurve_dashboards.boards.chaos import CHAOS
from hitcurve_dashboards.lint.execute import Asked, HttpPrometheus, execute
from hitcurve_dashboards.names import VLLM
from hitcurve_dashboards.rules.document import rule_groups

pytestmark = pytest.mark.real_prometheus

RATE = "model:vllm_hit_tokens:rate5m / (model:vllm_query_tokens:rate5m > 0)"


@pytest.fixture(scope="module")
def warm(fleet: Any) -> Any:
    """The fleet once its rates are known and one cache was reset."""
    fleet.wait(lambda: len(fleet.ask("hitcurve_request_window_lag_seconds > 0")) == 2, "traffic on both engines")
    fleet.wait(lambda: any(value > 0.5 for _, value in fleet.ask(RATE)), "a warm cache")
    fleet.wait(
        lambda: fleet.ask("sum(increase(hitcurve_evicted_blocks_total[15s])) > 0"), "evictions seen by Prometheus"
    )
    fleet.reset("sim-0")
    return fleet


def test_the_check_command_executes_every_query(warm: Any) -> None:
    command = [sys.executable, "-m", "hitcurve", "dashboards", "check", "--json"]
    options = ["--prometheus", warm.prometheus_url, "--rate-interval", "15s"]
    checked = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    findings = json.loads(checked.stdout)
    assert (checked.returncode, findings["problems"]) == (0, [])
    assert findings["executed"] > 130
    allowed = {
        "every replica is healthy",
        "no KV connector is configured",
        "no engine restarted and no cache was reset",
        "no state has a cause",
        "no page was odd yet",
        "no scrape has failed yet",
        "nothing is wrong",
    }
    assert {empty.partition(": ")[2] for empty in findings["empty"]} <= allowed


def test_the_chaos_dashboard_shows_which_scenario_runs_and_no_other(warm: Any) -> None:
    (panel,) = [one for row in CHAOS.rows for one in row.panels if one.title == "Scenario that runs"]
    (query,) = panel.queries
    asked = query.expr.replace("$job", "hitcurve")
    warm.wait(lambda: warm.ask(asked), "the scenario that runs")
    assert warm.ask(asked) == [({"scenario": "reset-idle"}, 1.0)]


def test_a_query_that_is_refused_or_empty_is_a_problem(warm: Any) -> None:
    asked = [Asked("a", "sum(rate("), Asked("b", "hitcurve_nothing"), Asked("c", "hitcurve_nothing", "allowed")]
    answers = list(execute(HttpPrometheus(warm.prometheus_url), iter([*asked, Asked("d", "time()")])))
    assert answers[0].problem.startswith("a: Prometheus refuses the query: ")
    assert [answer.problem for answer in answers[1:]] == ["b: no series; the panel would be empty", "", ""]


def test_nobody_answering_is_one_sentence() -> None:
    command = [sys.executable, "-m", "hitcurve", "dashboards", "check", "--prometheus", "127.0.0.1:9/"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stdout) == (3, "")
    said = "hitcurve: no Prometheus answers at http://127.0.0.1:9: connection refused; check the address.\n"
    assert checked.stderr == said


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, b"<html>nothing here</html>", "HTTP 404"),
        (401, b"{}", "HTTP 401"),
        (200, b"<html>a login page</html>", "the answer is none of its API"),
        (200, b"[1]", "the answer is none of its API"),
    ],
)
def test_somebody_else_answering_is_no_list_of_problems(status: int, body: bytes, reason: str) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        with pytest.raises(EnvironmentFailed, match=f": {reason}; check the address"):
            HttpPrometheus(f"http://127.0.0.1:{server.server_port}").query("up")
        server.shutdown()


def test_every_rule_is_healthy_and_recorded(warm: Any) -> None:
    warm.wait(lambda: all(rule["health"] == "ok" for rule in warm.rules()), "an evaluation of every rule")
    assert len(warm.rules()) == sum(len(group.rules) for group in rule_groups())
    recorded = [rule["name"] for rule in warm.rules() if rule["type"] == "recording"]
    warm.wait(lambda: all(warm.ask(name) for name in recorded), "a value of every recorded series")


def test_names_come_back_with_their_colon(warm: Any) -> None:
    """Prometheus 2.x asks for OpenMetrics; the shipped configuration undoes what this does to vLLM's names."""
    names = {labels["__name__"] for labels, _ in warm.ask('{__name__=~"vllm[:_].+",job="vllm"}')}
    assert len(names) > 30
    assert all(name.startswith("vllm:") for name in names)


def test_the_engines_metrics_are_those_of_a_recorded_page(repository: Any) -> None:
    page = (repository / "tests/core/vllm_0.32.0_page.prom").read_text()
    on_page = {re.split(r"[{ ]", line)[0] for line in page.splitlines() if not line.startswith("#")}
    old = {"vllm:gpu_prefix_cache_queries_total"}
    assert VLLM.keys() - on_page == old


@pytest.mark.parametrize("kind", ["query", "hit"])
def test_exporter_and_pages_agree(warm: Any, kind: str) -> None:
    """Both have counted since before the first request; each is between the other now and five seconds ago."""
    ours = f"hitcurve_{kind}_tokens_total"
    theirs = {"query": "vllm:prefix_cache_queries_total", "hit": "vllm:prefix_cache_hits_total"}[kind]
    key = "on (target, engine)"
    between = f"({ours} >= {key} ({theirs} offset 5s)) and {key} ({theirs} >= {key} ({ours} offset 5s))"
    warm.wait(lambda: len(warm.ask(between)) == 2, "agreement on both engines")


def test_a_reset_is_told_and_nothing_critical_fires(warm: Any) -> None:
    warm.wait(lambda: "PrefixCacheReset" in warm.firing(), "the alert on the reset")
    assert warm.firing() == {"PrefixCacheReset"}
