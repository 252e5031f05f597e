"""Defects that Prometheus and Grafana accept without a word: labels, units, times, links, texts that mislead."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hitcurve_dashboards.boards import DASHBOARDS
from hitcurve_dashboards.boards.fleet import FLEET
from hitcurve_dashboards.grafana.document import as_document
from hitcurve_dashboards.lint.dashboards import problems_between
from hitcurve_dashboards.lint.expressions import expression_problems
from hitcurve_dashboards.lint.labels import result_labels
from hitcurve_dashboards.lint.rules import recorded_names, rule_problems
from hitcurve_dashboards.lint.tree import parsed
from hitcurve_dashboards.lint.units import unit_problems
from hitcurve_dashboards.names import MISS_REASONS, known_metrics
from hitcurve_dashboards.rules.document import rule_groups
from hitcurve_dashboards.rules.records import Alert, Recording, RuleGroup
from hitcurve_engine import ledger

KNOWN = known_metrics(recorded_names(rule_groups()))
JOB = 'job=~"$job"'
HITS = f"rate(hitcurve_hit_tokens_total{{{JOB}}}[$__rate_interval])"
BUCKETS = f"rate(hitcurve_engine_first_token_seconds_bucket{{{JOB}}}[$__rate_interval])"
QUERIES = f"rate(hitcurve_query_tokens_total{{{JOB}}}[$__rate_interval])"
GAUGE = f"hitcurve_cumulative_hit_rate_ratio{{{JOB}}}"
PAGE = f"rate(vllm:prefix_cache_hits_total{{{JOB}}}[$__rate_interval])"
Plant = Callable[[dict[str, Any]], Any]


def query(expr: str, **more: Any) -> Plant:
    return lambda document: document["panels"][1]["targets"][0].update(expr=expr, **more)


def defaults(**changed: Any) -> Plant:
    return lambda document: document["panels"][1]["fieldConfig"]["defaults"].update(changed)


def ask_twice(document: dict[str, Any]) -> None:
    targets = document["panels"][1]["targets"]
    targets[0]["legendFormat"] = "a"
    targets.append({**targets[0], "legendFormat": "b"})


def on_lines(**changed: Any) -> Plant:
    def plant(document: dict[str, Any]) -> None:
        next(one for one in document["panels"] if one["type"] == "timeseries")["targets"][0].update(changed)

    return plant


def recolour(document: dict[str, Any]) -> None:
    (states,) = [panel for panel in document["panels"] if panel["title"] == "Curve states"]
    (collapsed,) = [one for one in states["fieldConfig"]["overrides"] if one["matcher"]["options"] == "collapsed"]
    collapsed["properties"][0]["value"]["fixedColor"] = "#56A64B"


DEFECTS: dict[str, tuple[Plant, str]] = {
    "other function below": (query(f"sum({HITS}) / (sum({QUERIES.replace('rate(', 'increase(')}) > 0)"),
                             "of different times"),
    "other offset below": (query(f"sum({HITS.replace(']', '] offset 5m')}) / (sum({QUERIES}) > 0)"),
                           "of different times"),
    "guard that lets idle through": (query(f"sum({HITS}) / (sum({QUERIES}) > -1)"), "denominator without '> 0'"),
    "one added below": (query(f"sum({HITS}) / ((sum({QUERIES}) + 1) > 0)"), "a number is added"),
    "the same above and below": (query(f"sum({HITS}) / (sum({HITS}) > 0)"), "are the same series"),
    "idle filled with zero": (query(f"sum({HITS}) / (sum({QUERIES}) > 0) or vector(0)"), "or vector(…)"),
    "sum of ratios": (query(f"sum({GAUGE})"), "sum of ratios"),
    "percent for a quantile": (
        query(f"histogram_quantile(95, sum by (le) ({BUCKETS}))"),
        "quantile 95 is not between",
    ),
    "exporter and pages added": (query(f"sum({HITS}) + sum({PAGE})"), "both count the same tokens"),
    "one spelling of vLLM's name": (query(f"sum({PAGE})"), "only vllm:prefix_cache_hits_total is read"),
    "grouped by a label nobody has": (query(f"sum by (replica) ({HITS})"), "grouped by replica"),
    "selected by a label nobody has": (query(f'sum(hitcurve_up{{{JOB},zone="a"}})'), "has no label zone"),
    "a state that does not exist": (query(f'sum(hitcurve_curve_state{{{JOB},state=~"low|sick"}})'),
                                    "knows no state 'sick'"),
    "a miss reason that does not exist": (
        query(f'sum(rate(hitcurve_engine_miss_tokens_total{{{JOB},reason="cold"}}[$__rate_interval]))'),
        "knows no reason 'cold'",
    ),
    "legend of a label summed away": (query(f"sum by (target) ({HITS})", legendFormat="{{engine}}"),
                                      "its legend shows engine"),
    "variable of another dashboard": (query(f'sum(hitcurve_up{{{JOB},target=~"$adapter"}})'),
                                      "$adapter is no variable of this dashboard"),
    "several values compared as one": (query('sum(hitcurve_up{job="$job"})'), "which may be several values"),
    "matched on a label that one side lacks": (
        query(f"hitcurve_up{{{JOB}}} * on (engine) hitcurve_build_info{{{JOB}}}"),
        "matched on engine, a label that one side has not",
    ),
    "a label taken over from nowhere": (
        query(f"hitcurve_up{{{JOB}}} * on (instance) group_left (zone) hitcurve_build_info{{{JOB}}}"),
        "takes over zone, a label that the other side has not",
    ),
    "a bucket that no histogram has": (
        query(f'sum(rate(vllm:time_to_first_token_seconds_bucket{{{JOB},le="0.7"}}[$__rate_interval]))'),
        "knows no le '0.7'",
    ),
    "median of ratios": (query(f"quantile(0.5, {GAUGE})"), "quantile of ratios"),
    "tokens a request for a share": (
        query(f"sum({HITS}) / (sum(rate(hitcurve_requests_total{{{JOB}}}[$__rate_interval])) > 0)"),
        "the values are of 'count:tok'",
    ),
    "a time that ends in the past": (lambda document: document["time"].update(to="now-1h"), "does not end now"),
    "a refresh of no time": (lambda document: document.update(refresh="soon"), "refresh 'soon' is no duration"),
    "seconds for a share": (defaults(unit="s"), "the values are of 'percentunit'"),
    "requests for tokens": (query(f"sum({HITS})"), "the values are of 'count:tok/s'"),
    "a share up to 100": (defaults(max=100), "its maximum is 1"),
    "zero for no traffic": (defaults(noValue="0"), "no text for no value"),
    "thresholds out of order": (
        defaults(thresholds={"steps": [{"value": None}, {"value": 5}, {"value": 1}]}),
        "thresholds do not rise",
    ),
    "a state in another colour": (recolour, "collapsed has another colour"),
    "description without its metrics": (lambda document: document["panels"][1].update(description="Which?"),
                                        "does not name hitcurve_hit_tokens_total"),
    "description of another query": (query(f"sum({QUERIES})"), "names hitcurve_hit_tokens_total, which"),
    "two queries with one refId": (ask_twice, "two queries have one refId"),
    "a line of one moment": (on_lines(instant=True), "an instant query: a timeseries has nothing"),
    "a table for lines": (on_lines(format="table"), "format table: a timeseries reads time_series"),
    "panel without a size": (lambda document: document["panels"][1]["gridPos"].update(w=0), "has no size"),
    "links that forget variables": (lambda document: document["links"][0].update(includeVars=False),
                                    "do not keep the variables"),
    "links that forget the time": (lambda document: document["links"][0].update(keepTime=False),
                                   "do not keep the time"),
    "no links": (lambda document: document.update(links=[]), "no links to the other dashboards"),
    "no tag to be found by": (lambda document: document.update(tags=[]), "none of the tags of its links"),
    "schema of an old Grafana": (lambda document: document.update(schemaVersion=16), "schemaVersion 16"),
    "variable that follows no other": (
        lambda document: document["templating"]["list"][3]["query"].update(
            query="label_values(hitcurve_query_tokens_total, target)"
        ),
        "variable target: does not follow $job",
    ),
    "marks without a title": (lambda document: document["annotations"]["list"][0].pop("titleFormat"),
                              "its marks have no title"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_that_misleads_is_named(name: str, problems_of_fleet: Callable[..., list[str]]) -> None:
    plant, words = DEFECTS[name]
    problems = problems_of_fleet(plant)
    assert any(words in problem for problem in problems), problems


REPLICA = "/d/hitcurve-replica?${__url_time_range}"
KEPT = "".join(f"&${{{name}:queryparam}}" for name in ("datasource", "job", "model", "engine"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("/d/hitcurve-replcia?var-target=x", "leads to no dashboard of ours"),
        (f"/d/hitcurve-replica?var-target=x{KEPT}", "does not keep the time"),
        (f"{REPLICA}{KEPT}", "sends the variable target 0 times"),
        (f"{REPLICA}{KEPT}&${{target:queryparam}}&var-target=x", "sends the variable target 2 times"),
        (f"{REPLICA}&${{__all_variables}}&var-target=x", "is sent twice"),
        (f"{REPLICA}{KEPT}&var-target=${{{{__data.fields.target}}}}", "a placeholder that Grafana cannot read"),
        (f"{REPLICA}{KEPT}&var-target=x", ""),
    ],
)
def test_a_link_that_forgets_is_named(url: str, words: str) -> None:
    documents = [copy.deepcopy(as_document(dashboard)) for dashboard in DASHBOARDS]
    (table,) = [panel for panel in documents[0]["panels"] if panel["title"] == "Unhealthy replicas"]
    table["fieldConfig"]["overrides"][0]["properties"][0]["value"][0]["url"] = url
    problems = list(problems_between(documents))
    assert len(problems) == (1 if words else 0)
    assert all(words in problem for problem in problems), problems


def test_a_uid_or_title_of_two_dashboards_is_named() -> None:
    documents = [as_document(FLEET), as_document(replace(FLEET, uid="hitcurve-replica"))]
    assert list(problems_between(documents)) == ["title hitcurve / Fleet is used more than once"]


UP = Alert("TargetGone", "hitcurve_up == 0", "5m", "warning", "s", "d", "p")
SUMMED = "sum by (job, model_name) (rate(hitcurve_hit_tokens_total[5m]))"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (UP, ""),
        (
            replace(UP, expr="sum by (job) (hitcurve_up) == 0", summary="{{ $labels.target }} is down"),
            "label target",
        ),
        (replace(UP, hold="5 min"), "no duration of Prometheus"),
        (replace(UP, hold="0s", severity="critical"), "for a single sample"),
        (replace(UP, severity="page"), "severity page is none of"),  # type: ignore[arg-type]
        (replace(UP, expr="hitcurve_up"), "compares nothing"),
        (replace(UP, name="target_gone"), "not named InThisWay"),
        (replace(UP, expr="rate(hitcurve_scrape_errors_total[$__rate_interval]) > 0"), "a variable of Grafana's"),
        (replace(UP, expr="rate(vllm:prompt_tokens_total[5m]) > 0"), "only vllm:prompt_tokens_total is read"),
        (Recording("model:hitcurve_hit_tokens:rate5m", SUMMED), ""),
        (Recording("model:hitcurve_hit_tokens:rate1h", SUMMED), "named for 1h, and reads another range"),
        (Recording("target_engine:hitcurve_hit_tokens:rate5m", SUMMED), "stands for the labels engine, job"),
        (Recording("fleet:hitcurve_hit_tokens:rate5m", SUMMED), "level fleet is none of"),
        (Recording("model:hit_rate:rate5m", f"{SUMMED}/({SUMMED}>0)"), "record numerator and denominator apart"),
    ],
)
def test_a_rule_that_misleads_is_named(rule: Alert | Recording, words: str) -> None:
    problems = rule_problems([RuleGroup("g", (rule,))], KNOWN)
    assert any(words in problem for problem in problems) if words else problems == [], problems


def test_a_group_without_a_duration_or_a_name_of_its_own_is_named() -> None:
    groups = [RuleGroup("g", (UP,), interval="half a minute"), RuleGroup("g", (replace(UP, name="Other"),))]
    assert rule_problems(groups, KNOWN) == [
        "g: interval half a minute is no duration of Prometheus', such as 30s",
        "g: more than one has this name",
    ]


@pytest.mark.parametrize(
    ("expr", "labels"),
    [
        ("sum by (job) (up)", {"job"}),
        ("sum without (instance) (up)", {"job", "target"}),
        ("sum(up)", set()),
        ("topk(3, up)", {"job", "instance", "target"}),
        ('label_replace(sum by (job) (up), "zone", "$1", "job", "(.*)")', {"job", "zone"}),
        ("up * on (job) up", {"job"}),
        ("up * ignoring (target) up", {"job", "instance"}),
        ("sum by (job) (up) or sum by (target) (up)", {"job", "target"}),
        ("sum by (job) (up) unless on (job) up", {"job"}),
        (
            "up * on (target) group_left (state) (hitcurve_curve_state == 1)",
            {"job", "instance", "target", "state"},
        ),
        ("time() - up", {"job", "instance", "target"}),
        ("up > 0", {"job", "instance", "target"}),
        ("vllm:cache_config_info", None),
        ("vllm:cache_config_info > 0", None),
        ("absent(up)", None),
    ],
)
def test_the_labels_of_a_result_are_those_that_prometheus_keeps(expr: str, labels: set[str] | None) -> None:
    assert result_labels(parsed(expr), KNOWN) == labels


@pytest.mark.parametrize(
    "expr",
    [
        "(rate(vllm:prefix_cache_hits_total[5m]) or rate(vllm_prefix_cache_hits_total[5m]))",
        'sum by (job) (rate(hitcurve_engine_miss_tokens_total{reason=~"capacity|reset"}[5m]))',
        "sum by (le, found) (rate(hitcurve_engine_first_token_seconds_bucket[5m]))",
        "sum by (block_size) (vllm:cache_config_info)",
        "sum by (block_size) (vllm:cache_config_info > 0)",
        "target_engine:hitcurve_hit_tokens:rate5m / (target_engine:hitcurve_query_tokens:rate5m > 100)",
        "sum(rate(hitcurve_hit_tokens_total[5m])) + sum(rate(hitcurve_query_tokens_total[5m]))",
    ],
)
def test_what_is_as_it_should_be_is_left_alone(expr: str) -> None:
    assert expression_problems(expr, KNOWN) == []


@pytest.mark.parametrize("unit", ["short", "suffix: s", "percentunit"])
def test_seconds_are_shown_as_nothing_else(unit: str) -> None:
    problems = unit_problems(parsed("hitcurve_scrape_duration_seconds"), unit, KNOWN)
    assert list(problems) == [f"unit '{unit}', and the values are of 's'"]


def test_miss_reasons_are_those_of_the_ledger() -> None:
    assert set(MISS_REASONS) == {*ledger.MISS_REASONS, "unknown"}
