"""Every query on a real Prometheus that scrapes a simulated fleet; alerts follow what happens."""

import json
import re
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

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
    urllib.request.urlopen(f"{fleet.engines['sim-0']}/reset_prefix_cache", data=b"", timeout=30).close()
    fleet.wait(lambda: fleet.ask("increase(hitcurve_cache_resets_total[15s]) > 0"), "the reset")
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


def test_a_query_that_is_refused_or_empty_is_a_problem(warm: Any) -> None:
    asked = [Asked("a", "sum(rate("), Asked("b", "hitcurve_nothing"), Asked("c", "hitcurve_nothing", "allowed")]
    answers = list(execute(HttpPrometheus(warm.prometheus_url), iter([*asked, Asked("d", "time()")])))
    assert answers[0].problem.startswith("a: Prometheus refuses the query: ")
    assert [answer.problem for answer in answers[1:]] == ["b: no series; the panel would be empty", "", ""]


def test_nobody_answering_is_one_sentence() -> None:
    command = [sys.executable, "-m", "hitcurve", "dashboards", "check", "--prometheus", "http://127.0.0.1:9"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 3
    assert checked.stderr.splitlines()[-1].startswith("hitcurve: no Prometheus answers at http://127.0.0.1:9: ")


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


def test_exporter_and_pages_agree(warm: Any) -> None:
    ours = "model:hitcurve_hit_tokens:rate5m / (model:hitcurve_query_tokens:rate5m > 0)"
    ((_, from_exporter),), ((_, from_pages),) = warm.ask(ours), warm.ask(RATE)
    assert from_exporter == pytest.approx(from_pages, abs=0.05)


def test_a_reset_is_told_and_nothing_critical_fires(warm: Any) -> None:
    warm.wait(lambda: warm.alerts().get("PrefixCacheReset") == "firing", "the alert on the reset")
    critical = {name for name, state in warm.alerts().items() if state == "firing"}
    assert critical == {"PrefixCacheReset"}
