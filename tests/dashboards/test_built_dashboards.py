"""The JSON that is built: the same each time, understood by Grafana's own schema, and committed as built."""

import colorsys
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hitcurve.reading import CAUSES, STATES
from hitcurve_dashboards.boards import DASHBOARDS
from hitcurve_dashboards.boards.fleet import FLEET
from hitcurve_dashboards.build import built, differing
from hitcurve_dashboards.grafana.document import as_document
from hitcurve_dashboards.grafana.looks import CAUSE_COLOURS, STATE_COLOURS
from hitcurve_dashboards.grafana.records import Panel
from hitcurve_dashboards.lint.dashboards import all_panels
from hitcurve_dashboards.lint.schema import schema_problems
from hitcurve_dashboards.names import FIRST_TOKEN_BOUNDS


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_grafanas_schema_loses_nothing(dashboard: Any) -> None:
    assert schema_problems(as_document(dashboard)) == []


def test_a_misspelt_field_does_not_come_back() -> None:
    document = as_document(FLEET)
    document["panels"][1]["fieldConfig"]["defaults"]["noValeu"] = "typo"
    document["panels"][1]["options"]["colourMode"] = "value"
    document["tiem"] = {}
    assert {problem.partition(" ")[0] for problem in schema_problems(document)} == {
        ".panels[1].options.colourMode",
        ".panels[1].fieldConfig.defaults.noValeu",
        ".tiem",
    }


def test_a_field_of_the_wrong_type_is_a_problem() -> None:
    document = as_document(FLEET)
    document["panels"][1] = "a panel"
    (problem,) = schema_problems(document)
    assert problem.startswith("Grafana's schema cannot read it")


def test_a_build_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "hitcurve", "dashboards", "build", "--out", str(tmp_path / seed)],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
            check=True,
            capture_output=True,
        )
    files = sorted(path.relative_to(tmp_path / "1") for path in (tmp_path / "1").rglob("*.*"))
    assert len(files) == len(built())
    for file in files:
        assert (tmp_path / "1" / file).read_bytes() == (tmp_path / "2" / file).read_bytes()


def test_what_is_committed_is_what_is_built(repository: Path) -> None:
    assert differing(built(), repository / "dashboards") == []


def test_a_file_that_is_old_or_left_over_is_told(tmp_path: Path) -> None:
    files = dict(list(built().items())[:2])
    paths = [tmp_path / path for path in files]
    paths[0].parent.mkdir(parents=True)
    paths[0].write_text("{}")
    left = paths[0].parent / "hitcurve-gone.json"
    left.write_text("{}")
    assert differing(files, tmp_path) == [
        f"{paths[0]} differs from what is built",
        f"{paths[1]} is missing",
        f"{left} is no longer built",
    ]


def test_ids_stay_when_a_panel_is_put_in_front() -> None:
    first, *others = FLEET.rows
    new = Panel("New", "stat", "New?")
    changed = replace(FLEET, rows=(replace(first, panels=(new, *first.panels)), *others))
    before = {panel["title"]: panel["id"] for panel in all_panels(as_document(FLEET))}
    after = {panel["title"]: panel["id"] for panel in all_panels(as_document(changed))}
    assert after == before | {"New": after["New"]}


def test_every_state_and_cause_has_its_own_colour() -> None:
    for names, colours in ((STATES, STATE_COLOURS), (CAUSES, CAUSE_COLOURS)):
        assert colours.keys() == set(names)
        assert len(set(colours.values())) == len(names)


def hue(colour: str) -> float:
    """Degrees on the colour wheel."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 360 * colorsys.rgb_to_hls(red, green, blue)[0]


def test_a_state_is_of_the_same_hue_in_the_report_of_a_run(repository: Path) -> None:
    css = (repository / "chaos/hitcurve_chaos/report/assets/report.css").read_text()
    for theme in (css.partition("@media")[0], css.partition("prefers-color-scheme: dark")[2]):
        own = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", theme))
        for state in set(STATES) - {"no_traffic"}:
            apart = abs(hue(own[state]) - hue(STATE_COLOURS[state]))
            assert min(apart, 360 - apart) < 40, state


def test_links_between_dashboards_keep_variables_and_time() -> None:
    for dashboard in DASHBOARDS:
        (link,) = as_document(dashboard)["links"]
        assert (link["includeVars"], link["keepTime"], link["tags"]) == (True, True, ["hitcurve"])
        assert as_document(dashboard)["tags"] == ["hitcurve"]


def test_options_reach_the_rules(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hitcurve", "dashboards", "build", "--out", str(tmp_path)]
    options = ["--ttft-bound", "1", "--ttft-target", "0.95", "--runbooks", "https://wiki.example/hit"]
    subprocess.run([*command, *options], check=True, capture_output=True)
    record = (tmp_path / "prometheus/rules/hitcurve-record-ttft.yml").read_text()
    alerts = (tmp_path / "prometheus/rules/hitcurve-alert-rates.yml").read_text()
    assert 'le="1.0"' in record
    assert "> 0.72" in alerts  # 14.4 times 5 %
    assert "runbook_url: https://wiki.example/hit/ttft-budget-burns.md" in alerts
    (tmp_path / "file").write_text("")
    refused = subprocess.run([*command[:-1], str(tmp_path / "file")], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert refused.stderr.endswith("hitcurve-fleet.json: Not a directory; choose another folder.\n")
    for unknown in ("soon", "0.7"):
        refused = subprocess.run([*command, "--ttft-bound", unknown], capture_output=True, text=True)
        assert refused.returncode == 2
        assert "--ttft-bound must be a bucket bound of vllm:time_to_first_token_seconds" in refused.stderr


def test_the_bounds_of_the_objective_are_those_of_a_recorded_page(repository: Path) -> None:
    page = (repository / "tests/core/vllm_0.32.0_page.prom").read_text()
    found = re.findall(r'^vllm:time_to_first_token_seconds_bucket\{.*le="([^"]+)"', page, re.MULTILINE)
    assert [repr(bound) for bound in FIRST_TOKEN_BOUNDS] == [bound for bound in found if bound != "+Inf"]


def test_the_documentation_names_every_dashboard_and_file(repository: Path) -> None:
    text = (repository / "docs/dashboards.md").read_text()
    for dashboard in DASHBOARDS:
        assert f"| {dashboard.title.removeprefix('hitcurve / ')} (`{dashboard.uid}`) |" in text
    for name in re.findall(r"`(hitcurve-[a-z-]+\.yml)`", text):
        assert (repository / "dashboards/prometheus/rules" / name).is_file(), name


def test_a_found_request_leads_to_its_trace() -> None:
    """A table of spans shows ``spanID``; the id of the trace is in ``traceIdHidden``, which Grafana hides."""
    (request,) = [as_document(one) for one in DASHBOARDS if one.uid == "hitcurve-request"]
    tables = [panel for panel in request["panels"] if panel["type"] == "table"]
    assert len(tables) == 4
    for panel in tables:
        assert panel["targets"][0]["tableType"] == "spans"
        (override,) = panel["fieldConfig"]["overrides"]
        assert override["matcher"] == {"id": "byName", "options": "spanID"}
        assert override["properties"][0]["value"][0]["url"].endswith("&var-trace=${__data.fields.traceIdHidden}")
    assert "trace" in {variable["name"] for variable in request["templating"]["list"]}


SHOWN = {
    "hitcurve-replica": (
        ("Curve state", "hitcurve_curve_state"),
        ("Probable cause", "hitcurve_curve_cause"),
        ("Request-window hit rate", "hitcurve_request_window_hit_rate_ratio"),
        ("Cumulative hit rate", "hitcurve_cumulative_hit_rate_ratio"),
        ("Where query tokens went", "hitcurve_engine_miss_tokens_total"),
        ("Age and idle time at eviction", "hitcurve_engine_evicted_block_age_seconds_bucket"),
        ("KV pool held by requests", "hitcurve_kv_usage_ratio"),
        ("Preemptions", "hitcurve_preemptions_total"),
        ("Query tokens by adapter", "hitcurve_engine_query_tokens_total"),
        ("Time to first token, hits and misses apart", "hitcurve_engine_first_token_seconds_bucket"),
    ),
    "hitcurve-capacity": (
        ("Hit rate against the size of the pool, now", "hitcurve_engine_pool_curve_hit_tokens_total"),
        ("Memory of the pool", "vllm:cache_config_info"),
    ),
    "hitcurve-adapters": (
        ("Isolated tokens by kind of key", "hitcurve_engine_isolated_tokens_total"),
        ("Recomputed tokens by adapter", "hitcurve_engine_regret_tokens_total"),
    ),
}


@pytest.mark.parametrize("uid", SHOWN)
def test_a_dashboard_shows_what_it_is_for(uid: str) -> None:
    (dashboard,) = [one for one in DASHBOARDS if one.uid == uid]
    panels = {panel["title"]: panel for panel in all_panels(as_document(dashboard))}
    for title, metric in SHOWN[uid]:
        assert any(metric in target["expr"] for target in panels[title]["targets"]), title


def test_searches_for_traces_name_attributes_that_the_engine_patch_writes(repository: Path) -> None:
    documented = (repository / "docs" / "engine_spans.md").read_text(encoding="utf-8")
    searches = [
        panel.traces.query
        for dashboard in DASHBOARDS
        for row in dashboard.rows
        for panel in row.panels
        if panel.traces is not None
    ]
    named = {name for search in searches for name in re.findall(r"span\.(hitcurve\.[a-z_.]+)", search)}
    assert len(searches) == 5
    assert named
    for name in named:
        general = re.sub(r"miss_tokens\.\w+", "miss_tokens.<reason>", name)
        assert f"`{general}`" in documented, name
