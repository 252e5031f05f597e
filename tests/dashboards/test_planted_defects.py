"""Each planted defect is found, and named; the dashboards without them have none."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hitcurve.errors import BadFinding
from hitcurve_dashboards.boards import DASHBOARDS
from hitcurve_dashboards.boards.chaos import CHAOS
from hitcurve_dashboards.boards.fleet import FLEET
from hitcurve_dashboards.command import check
from hitcurve_dashboards.grafana.document import as_document
from hitcurve_dashboards.lint.check import check_documents
from hitcurve_dashboards.lint.dashboards import dashboard_problems
from hitcurve_dashboards.lint.expressions import expression_problems
from hitcurve_dashboards.lint.rules import rule_problems
from hitcurve_dashboards.names import known_metrics
from hitcurve_dashboards.rules.records import Alert, Recording, RuleGroup

KNOWN = known_metrics(["model:hitcurve_hit_tokens:rate5m", "model:hitcurve_query_tokens:rate5m"])
JOB = 'job=~"$job"'
HITS = f"hitcurve_hit_tokens_total{{{JOB}}}"
HITS_OF_ENGINE_0 = f'hitcurve_hit_tokens_total{{{JOB},engine="0"}}'
QUERIES = f"hitcurve_query_tokens_total{{{JOB}}}"


def rated(series: str) -> str:
    return f"rate({series}[$__rate_interval])"


def panel(document: dict[str, Any]) -> dict[str, Any]:
    """The tile with the fleet's hit rate."""
    found: dict[str, Any] = document["panels"][1]
    return found


def expression(expr: str) -> Callable[[dict[str, Any]], None]:
    def plant(document: dict[str, Any]) -> None:
        panel(document)["targets"][0]["expr"] = expr

    return plant


def setting(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def plant(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return plant


def absent(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def plant(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return plant


DEFAULTS = ("panels", 1, "fieldConfig", "defaults")
JOB_VARIABLE = ("templating", "list", 1)
SCOPED_UP = f"hitcurve_up{{{JOB}}}"
DEFECTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "renamed metric": (expression(f"hitcurve_hitrate{{{JOB}}}"), "hitcurve_hitrate does not exist"),
    "metric of an old engine": (expression(f"vllm:gpu_prefix_cache_hit_rate{{{JOB}}}"), "does not exist"),
    "rate of a gauge": (expression(rated(f"hitcurve_kv_usage_ratio{{{JOB}}}")), "which is a gauge"),
    "rate of a recorded rate": (expression(f"rate(model:hitcurve_hit_tokens:rate5m{{{JOB}}}[$__rate_interval])"),
                                "is recorded and no counter"),
    "lifetime ratio": (expression(f"sum({HITS}) / (sum({QUERIES}) > 0)"), "shows the time since start"),
    "missing unit": (setting(*DEFAULTS, "unit", value=""), "no valid unit"),
    "unknown unit": (setting(*DEFAULTS, "unit", value="percentage"), "no valid unit: 'percentage'"),
    "fixed data source of a panel": (setting("panels", 1, "datasource", "uid", value="P1809F7CD0C75ACF3"),
                                     "its data source is fixed"),
    "fixed data source of a query": (setting("panels", 1, "targets", 0, "datasource", "uid", value="abc"),
                                     "the data source of a query is fixed"),
    "fixed data source of a variable": (setting(*JOB_VARIABLE, "datasource", "uid", value="abc"),
                                        "variable job: its data source is fixed"),
    "label on one side only": (
        expression(f"sum({rated(HITS_OF_ENGINE_0)}) / (sum({rated(QUERIES)}) > 0)"),
        "label on one side only: engine",
    ),
    "grouped by different labels": (
        expression(f"sum by (target) ({rated(HITS)}) / (sum by (engine) ({rated(QUERIES)}) > 0)"),
        "summed by different labels",
    ),
    "epsilon denominator": (expression(f"sum({rated(HITS)}) / (sum({rated(QUERIES)}) + 1e-10)"),
                            "epsilon denominator"),
    "clamped denominator": (expression(f"sum({rated(HITS)}) / clamp_min(sum({rated(QUERIES)}), 1)"),
                            "clamp_min in the denominator"),
    "no guard against idle": (expression(f"sum({rated(HITS)}) / sum({rated(QUERIES)})"),
                              "denominator without '> 0'"),
    "mean of ratios": (expression(f"avg({rated(HITS)} / ({rated(QUERIES)} > 0))"), "avg of ratios"),
    "best replica shown as the fleet": (expression(f"max({rated(HITS)} / ({rated(QUERIES)} > 0))"),
                                        "max of ratios"),
    "mean of a ratio over time": (expression(f"avg_over_time(hitcurve_cumulative_hit_rate_ratio{{{JOB}}}[1h])"),
                                  "avg_over_time of a ratio"),
    "ratio upside down": (expression(f"sum({rated(QUERIES)}) / (sum({rated(HITS)}) > 0)"), "upside down"),
    "rate of a sum": (expression(f"rate(sum(hitcurve_up{{{JOB}}})[1h:1m])"), "rate of a sum"),
    "$__interval under rate": (expression(f"rate({HITS}[$__interval])"), "$__interval as a range"),
    "fixed range": (expression(f"sum(rate({HITS}[5m]))"), "a fixed range under rate"),
    "quantile without le": (
        expression(f"histogram_quantile(0.9, sum({rated(f'vllm:time_to_first_token_seconds_bucket{{{JOB}}}')}))"),
        "without 'le'",
    ),
    "info series by model": (expression(f'vllm:cache_config_info{{{JOB},model_name=~"$model"}}'),
                             "has no label model_name"),
    "selector without variables": (expression("hitcurve_up"), "follows no variable"),
    "no PromQL": (expression("sum(rate("), "no PromQL"),
    "no description": (setting("panels", 1, "description", value=""), "asks no question"),
    "no text for no traffic": (absent(*DEFAULTS, "noValue"), "no text for no value"),
    "no query": (setting("panels", 1, "targets", value=[]), "no queries"),
    "overlapping panels": (setting("panels", 2, "gridPos", "x", value=2), "overlap"),
    "beyond the grid": (setting("panels", 6, "gridPos", "w", value=9), "beyond the edge"),
    "an id twice": (lambda document: panel(document).update(id=document["panels"][2]["id"]),
                    "is used more than once"),
    "exported for import": (setting("__inputs", value=[{"name": "DS_PROMETHEUS"}]), "exported for import"),
    "an id of its own": (setting("id", value=7), "exported for import"),
    "editable": (setting("editable", value=True), "editable"),
    "no uid": (setting("uid", value=""), "no uid"),
    "no All value": (setting(*JOB_VARIABLE, "allValue", value=None), "no allValue"),
    "variable read once": (setting(*JOB_VARIABLE, "refresh", value=1), "not read again"),
    "variable of one value": (setting(*JOB_VARIABLE, "multi", value=False), "not more than one value"),
    "variable over an unknown metric": (
        setting(*JOB_VARIABLE, "query", value={"query": "label_values(hitcurve_upp, job)"}),
        "variable job: metric hitcurve_upp does not exist",
    ),
    "annotation over an unknown metric": (setting("annotations", "list", 0, "expr", value="hitcurve_boom"),
                                          "annotation Restarts: metric hitcurve_boom does not exist"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, problems_of_fleet: Callable[..., list[str]]) -> None:
    plant, words = DEFECTS[name]
    problems = problems_of_fleet(plant)
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("path", "words"), [(("options", "tags"), "the events of everybody"), (("description",), "asks no question")]
)
def test_a_planted_defect_in_a_list_of_events_is_found(path: tuple[str, ...], words: str) -> None:
    document = copy.deepcopy(as_document(CHAOS))
    (at,) = [at for at, one in enumerate(document["panels"]) if one["type"] == "annolist"]
    assert dashboard_problems(document, KNOWN) == []
    setting("panels", at, *path, value="")(document)
    (problem,) = dashboard_problems(document, KNOWN)
    assert words in problem


def test_the_command_ends_with_1_on_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(FLEET, description="")
    monkeypatch.setattr("hitcurve_dashboards.lint.check.DASHBOARDS", (broken, *DASHBOARDS[1:]))
    with pytest.raises(BadFinding, match=r"^1 problem in dashboards or rules"):
        check()


def test_nothing_is_found_without_a_defect() -> None:
    findings = check_documents()
    assert findings.problems == []
    assert findings.expressions > 100


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Recording("hit_rate", "sum(rate(hitcurve_hit_tokens_total[5m]))"), "not named level:metric:operations"),
        (
            Recording(
                "model:hit_rate:ratio_rate5m",
                "model:hitcurve_hit_tokens:rate5m / (model:hitcurve_query_tokens:rate5m > 0)",
            ),
            "record numerator and denominator apart",
        ),
        (
            Recording("model:x:mean1h", "avg_over_time(hitcurve_hit_rate_ratio[1h])"),
            "avg_over_time of a ratio",
        ),
        (Alert("A", "hitcurve_up == 0", "0m", "critical", "s", "d", "p"), "for a single sample"),
        (Alert("A", "hitcurve_up == 0", "5m", "warning", "", "d", "p"), "no summary"),
        (Alert("A", "hitcurve_down == 1", "5m", "warning", "s", "d", "p"), "hitcurve_down does not exist"),
    ],
)
def test_a_planted_defect_in_a_rule_is_found(rule: Recording | Alert, words: str) -> None:
    problems = rule_problems([RuleGroup("g", (rule,))], KNOWN)
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize(
    "expr",
    [
        "sum by (target) (rate(hitcurve_hit_tokens_total[5m])) "
        "/ (sum by (target) (rate(hitcurve_query_tokens_total[5m])) > 0)",
        "sum_over_time(model:hitcurve_hit_tokens:rate5m[1d]) "
        "/ (sum_over_time(model:hitcurve_query_tokens:rate5m[1d]) > 0)",
        'rate({__name__=~"vllm[:_]prefix_cache_hits_total"}[5m])',
        "histogram_quantile(0.9, sum without (engine) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
        "max(hitcurve_kv_usage_ratio)",
        "increase(hitcurve_engine_restarts_total[1h]) > 0",
        "absent(hitcurve_query_tokens_total)",
        "sum(hitcurve_running_requests) / 2",
    ],
)
def test_good_expressions_are_left_alone(expr: str) -> None:
    assert expression_problems(expr, KNOWN) == []
