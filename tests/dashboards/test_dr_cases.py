"""The DR cases: wrong expressions are named, right ones are not, and our rules give the right numbers."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hitcurve_dashboards.boards.fleet import FLEET
from hitcurve_dashboards.build import built
from hitcurve_dashboards.grafana.document import as_document
from hitcurve_dashboards.lint.dashboards import dashboard_problems
from hitcurve_dashboards.lint.expressions import expression_problems
from hitcurve_dashboards.lint.rules import recorded_names
from hitcurve_dashboards.names import known_metrics
from hitcurve_dashboards.rules.document import rule_groups

KNOWN = known_metrics(recorded_names(rule_groups())) | {
    "kvprobe_evictions_total": "counter",
    "sglang:cache_hit_rate": "gauge",
}
FILES = ("DR-01", "DR-03", "DR-05", "DR-06", "DR-10", "DR-15")
NAMED = {
    "DR-01": {1: "shows the time since start"},
    "DR-03": {1: "increase of a sum"},
    "DR-05": {1: "avg of ratios", 2: "max of ratios"},
    "DR-06": {1: "clamp_min in the denominator"},
    "DR-10": {1: "has no label model_name"},
    "DR-15": {},
}
"""By case: what is said about the wrong ones of its expressions."""


def document(shared: Path, case: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((shared / "cases" / case / "promtool_test.yml").read_text())
    return loaded


def expressions(shared: Path, case: str) -> list[str]:
    (test,) = document(shared, case)["tests"]
    return [asked["expr"] for asked in test["promql_expr_test"]]


@pytest.mark.parametrize("case", FILES)
def test_promtool_agrees_with_the_case(case: str, promtool: str, shared: Path) -> None:
    file = shared / "cases" / case / "promtool_test.yml"
    tested = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("case", FILES)
def test_the_check_names_the_wrong_expressions_and_only_those(case: str, shared: Path) -> None:
    said = {place: expression_problems(expr, KNOWN) for place, expr in enumerate(expressions(shared, case))}
    for place, words in NAMED[case].items():
        assert any(words in problem for problem in said[place]), said[place]
    every = {words for named in NAMED.values() for words in named.values()}
    for place in said.keys() - NAMED[case].keys():
        assert not any(words in problem for words in every for problem in said[place]), said[place]


def evaluated(
    shared: Path, case: str, rule_files: list[Path], tmp_path: Path, asked: list[dict[str, Any]], promtool: str
) -> None:
    """Let promtool evaluate our rules on the series of the case."""
    (test,) = document(shared, case)["tests"]
    test["promql_expr_test"] = asked
    changed = {
        "rule_files": [str(file) for file in rule_files],
        "evaluation_interval": "15s",
        "tests": [test],
    }
    file = tmp_path / "ours.yml"
    file.write_text(yaml.safe_dump(changed))
    tested = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def recorded_rate(level: str, labels: str, value: float, at: str) -> dict[str, Any]:
    ratio = f"{level}:vllm_hit_tokens:rate5m / ({level}:vllm_query_tokens:rate5m > 0)"
    samples = [{"labels": labels, "value": value}] if labels else []
    return {"expr": f"round({ratio}, 0.000001)", "eval_time": at, "exp_samples": samples}


def test_dr_01_the_recorded_rate_shows_the_drop(
    shared: Path, rule_files: list[Path], tmp_path: Path, promtool: str
) -> None:
    right = json.loads((shared / "cases/DR-01/expected.json").read_text())["expect"]["panel_value_at_10m"]
    asked = [recorded_rate("model", '{model_name="m"}', right, "10m")]
    evaluated(shared, "DR-01", rule_files, tmp_path, asked, promtool)


def test_dr_05_the_recorded_rates_weigh_by_tokens(
    shared: Path, rule_files: list[Path], tmp_path: Path, promtool: str
) -> None:
    right = json.loads((shared / "cases/DR-05/expected.json").read_text())["expect"]
    asked = [recorded_rate("model", '{model_name="m"}', right["fleet_hit_rate"], "4m")]
    replicas = recorded_rate("instance_engine", "", 0, "4m")
    replicas["exp_samples"] = [
        {"labels": f'{{instance="{name}",engine="0",model_name="m"}}', "value": value}
        for name, value in right["per_instance"].items()
    ]
    evaluated(shared, "DR-05", rule_files, tmp_path, [*asked, replicas], promtool)


def test_dr_06_only_the_busy_one_is_judged(
    shared: Path, rule_files: list[Path], tmp_path: Path, promtool: str
) -> None:
    asked = [recorded_rate("instance_engine", '{instance="b",engine="0",model_name="m"}', 0.1, "8m")]
    evaluated(shared, "DR-06", rule_files, tmp_path, asked, promtool)


def test_dr_12_a_day_is_weighted_by_its_tokens(rule_files: list[Path], tmp_path: Path, promtool: str) -> None:
    """0.9 of 10 tokens a minute for ten minutes, then 0.1 of 990: 0.108, where the mean of the ratios is 0.5."""
    series = {
        'vllm:prefix_cache_queries_total{instance="a",model_name="m"}': "0x10 0+10x10 100+990x10 10000x10",
        'vllm:prefix_cache_hits_total{instance="a",model_name="m"}': "0x10 0+9x10 90+99x10 1080x10",
    }
    over_time = "sum_over_time(instance_engine:vllm_{}_tokens:rate5m[40m])"
    asked = {
        "expr": f"round({over_time.format('hit')} / {over_time.format('query')}, 0.01)",
        "eval_time": "40m",
        "exp_samples": [{"labels": '{instance="a",model_name="m"}', "value": 0.11}],
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [asked],
    }
    file = tmp_path / "ours.yml"
    files = [str(rule) for rule in rule_files]
    file.write_text(yaml.safe_dump({"rule_files": files, "evaluation_interval": "15s", "tests": [test]}))
    tested = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize(
    ("case", "expr", "words"),
    [
        (
            "DR-02",
            "avg(vllm:time_to_first_token_seconds_sum) / avg(vllm:time_to_first_token_seconds_count)",
            "since start",
        ),
        ("DR-02", "sum by (le) (vllm:time_to_first_token_seconds_bucket)", "since start"),
        ("DR-04", "rate(sglang:cache_hit_rate[5m])", "which is a gauge"),
        ("DR-04", "avg_over_time(sglang:cache_hit_rate[5m])", "avg_over_time of a ratio"),
        (
            "DR-09",
            "rate(vllm:prefix_cache_queries_total[5m]) / (rate(vllm:prefix_cache_hits_total[5m]) > 0)",
            "upside down",
        ),
        (
            "DR-11",
            'sum(rate(vllm:prefix_cache_hits_total{endpoint="x"}[5m])) '
            "/ (sum(rate(vllm:prefix_cache_queries_total[5m])) > 0)",
            "label on one side only: endpoint",
        ),
        ("DR-14", "rate(vllm:prefix_cache_hits_total[$__interval])", "use $__rate_interval"),
    ],
)
def test_cases_without_files_are_named(case: str, expr: str, words: str) -> None:
    problems = expression_problems(expr, KNOWN)
    assert any(words in problem for problem in problems), problems


LATENCY = "vllm:time_to_first_token_seconds"
HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
RATE = f"sum(rate({HITS}[5m])) / (sum(rate({QUERIES}[5m])) > 0)"


@pytest.mark.parametrize(
    ("case", "expr", "words"),
    [
        ("DR-01", f"sum({HITS}) / (sum({QUERIES} > 0) > 0)", "shows the time since start"),
        ("DR-01", f"delta({HITS}[5m]) / (delta({QUERIES}[5m]) > 0)", "shows the time since start"),
        ("DR-02", f"histogram_quantile(0.9, sum by (le) ({LATENCY}_bucket))", "shows the time since start"),
        ("DR-02", f"sum(increase({LATENCY}_sum[5m])) / {LATENCY}_count", "shows the time since start"),
        ("DR-03", f"rate((sum by (model_name) ({HITS}))[5m:15s])", "rate of a sum"),
        ("DR-03", "increase(model:vllm_hit_tokens:rate5m[5m])", "is recorded and no counter"),
        ("DR-04", "sum(sglang:cache_hit_rate)", "sum of ratios"),
        ("DR-04", "deriv(sum(sglang:cache_hit_rate)[5m:])", "sum of ratios"),
        ("DR-05", f"avg by (model_name) (rate({HITS}[5m]) / (rate({QUERIES}[5m]) > 0))", "avg of ratios"),
        ("DR-05", "sum(hitcurve_hit_rate_ratio) / (count(hitcurve_hit_rate_ratio) > 0)", "sum of ratios"),
        ("DR-06", RATE.replace("> 0", "> bool 0"), "divides by 0 or 1"),
        ("DR-06", f"{RATE} or vector(0)", "no traffic is shown as a number"),
        ("DR-09", "model:vllm_query_tokens:rate5m / (model:vllm_hit_tokens:rate5m > 0)", "upside down"),
        ("DR-09", f"sum(increase({QUERIES}[1h])) / (sum(increase({HITS}[1h])) > 0)", "upside down"),
        ("DR-10", "vllm:kv_cache_usage_perc * on (instance, model_name) group_left (block_size) "
                  "vllm:cache_config_info", "has no label model_name"),
        ("DR-10", "vllm:kv_cache_usage_perc * vllm:cache_config_info", "join it on instance and engine"),
        ("DR-11", RATE.replace(HITS, f'{HITS}{{engine="0"}}'), "label on one side only: engine"),
        ("DR-11", RATE.replace(QUERIES, f'{QUERIES}{{job!="b"}}'), "label on one side only: job"),
        ("DR-12", "sum_over_time(hitcurve_hit_rate_ratio[1h]) / count_over_time(hitcurve_hit_rate_ratio[1h])",
         "sum_over_time of a ratio"),
        ("DR-12", f"max_over_time(({RATE})[1h:1m])", "max_over_time of a ratio"),
        ("DR-14", f"increase({HITS}[ $__interval ])", "use $__rate_interval"),
        ("DR-14", f"sum(irate({HITS}[$__interval_ms]))", "use $__rate_interval"),
    ],
)  # fmt: skip
def test_variations_of_the_cases_are_named(case: str, expr: str, words: str) -> None:
    problems = expression_problems(expr, KNOWN)
    assert any(words in problem for problem in problems), problems


def test_dr_10_the_right_join_is_left_alone() -> None:
    joined = "vllm:kv_cache_usage_perc * on (instance, engine) group_left (block_size) vllm:cache_config_info"
    assert expression_problems(joined, KNOWN) == []


@pytest.mark.parametrize("key", ["__inputs", "__requires", "__elements"])
def test_dr_08_what_an_export_leaves_behind_is_named(key: str) -> None:
    document = {**as_document(FLEET), key: []}
    assert any("exported for import" in problem for problem in dashboard_problems(document, KNOWN))


def test_dr_08_no_data_source_is_left_to_be_resolved_by_an_import() -> None:
    for path, text in built().items():
        if path.suffix != ".json":
            continue
        dashboard = json.loads(text)
        assert not {"__inputs", "__requires", "id"} & dashboard.keys(), path
        assert "${DS_" not in text, path
        assert "datasource" in {one["type"] for one in dashboard["templating"]["list"]}, path


@pytest.mark.parametrize(("cold_minutes", "fires"), [(3, False), (40, True)])
def test_dr_13_a_cold_cache_after_a_deploy_pages_only_if_it_lasts(
    cold_minutes: int, fires: bool, rule_files: list[Path], tmp_path: Path, promtool: str
) -> None:
    """A restart under full traffic; the curve is cold, then steady."""
    who = 'job="hitcurve",target="a",engine="0",model_name="m"'
    steady_minutes = 45 - cold_minutes
    series = {
        f"hitcurve_query_tokens_total{{{who}}}": "0+60000x45",
        f"hitcurve_hit_tokens_total{{{who}}}": f"0+600x{cold_minutes} {600 * cold_minutes}+54000x{steady_minutes}",
        f'hitcurve_curve_state{{{who},state="cold"}}': f"1x{cold_minutes} 0x{steady_minutes}",
        f'hitcurve_curve_state{{{who},state="steady"}}': f"0x{cold_minutes} 1x{steady_minutes}",
        "hitcurve_exporter_targets": "1x45",
    }
    too_long = {"labels": '{alertname="PrefixCacheColdTooLong",severity="warning"}', "value": 1}
    asked = [
        {
            "expr": 'count by (alertname, severity) (ALERTS{alertstate="firing"})',
            "eval_time": f"{minute}m",
            "exp_samples": [too_long] if fires and 33 < minute <= cold_minutes else [],
        }
        for minute in (2, 4, 20, 39, 44)
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": asked,
    }
    file = tmp_path / "ours.yml"
    files = [str(rule) for rule in rule_files]
    file.write_text(yaml.safe_dump({"rule_files": files, "evaluation_interval": "15s", "tests": [test]}))
    tested = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr
