"""Suites: what their files may say, in which order they run, what is skipped, what a pipeline gets."""

import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.catalogue import metric_named
from hitcurve.errors import UsageError
from hitcurve_chaos.active import ActiveScenario, serve_active
from hitcurve_chaos.hypothesis import Judgement
from hitcurve_chaos.junit import write_junit
from hitcurve_chaos.markdown import summary
from hitcurve_chaos.plan import plan
from hitcurve_chaos.results import Results
from hitcurve_chaos.runner import run_planned
from hitcurve_chaos.scenarios.registry import SCENARIOS
from hitcurve_chaos.suite import SUITES, find_suite, plan_suite
from hitcurve_chaos.verdict import Skipped, Verdict

SETTINGS = {"baseline": 5, "baseline_within": 30, "hold": 6, "recover_within": 20}


@pytest.mark.parametrize("name", SUITES)
def test_built_in_suites_are_whole(name: str) -> None:
    suite = find_suite([name])
    planned = plan_suite(suite, {}, 1)
    assert len(planned) == len(suite.scenarios)
    if name != "smoke":
        assert {scenario.name for scenario, _ in planned} == set(SCENARIOS)
    assert (suite.repeat_for_s is not None) == (name == "soak")


def test_the_seed_decides_the_order_and_scenarios_under_load_come_first() -> None:
    orders = [[s.name for s, _ in plan_suite(find_suite(["nightly"]), {}, seed)] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    for order in orders:
        loads = [SCENARIOS[name].under_load for name in order]
        assert loads == sorted(loads, reverse=True)


def test_parameters_of_a_scenario_go_before_those_of_its_suite_and_the_command_line_before_both(
    tmp_path: Path,
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "title: Ours\n"
        "parameters: {hold: 3s, salts: 5}\n"
        "scenarios:\n- pause\n- scenario: salt-storm\n  with: {salts: 7, hold: 4s}\n"
    )
    suite = find_suite([str(path)])
    assert (suite.name, suite.title) == ("own", "Ours")
    pause, storm = plan_suite(suite, {}, 1)
    assert (pause[1]["hold"], storm[1]["hold"], storm[1]["salts"]) == (3.0, 4.0, 7)
    pause, storm = plan_suite(suite, {"hold": "9s"}, 1)
    assert (pause[1]["hold"], storm[1]["hold"]) == (9.0, 9.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("title: x\n", "own.yaml:1: there is no 'scenarios' list"),
        ("scenarios: []\n", "own.yaml:1: scenarios is empty; list at least one scenario."),
        ("scenarios: [pauze]\n", "own.yaml:1: scenarios[0] is no scenario (there is no scenario 'pauze'; did you"),
        ("scenarios:\n- {with: {hold: 1s}}\n", "own.yaml:2: scenarios[0] names no 'scenario'"),
        ("order: random\nscenarios: [pause]\n", "own.yaml:1: order is 'random'; write listed or shuffled."),
        (
            "repeat_for: long\nscenarios: [pause]\n",
            "own.yaml:1: repeat_for is 'long'; give a duration such as 4h.",
        ),
        ("parameters: {hald: 1s}\nscenarios: [pause]\n", "there is no scenario parameter 'hald'"),
        ("scenarios:\n- {scenario: pause, with: {paused: x}}\n", "the scenario parameter 'paused' cannot be 'x'"),
        ("suites: 1\n", "own.yaml:1: suites is not a known key"),
        (
            "scenarios:\n- {scenario: pause, tolerances: {fail: 1}}\n",
            "'pause' has no expectation 'fail' whose tolerance could be set; it has failed, cached_after",
        ),
        (
            "scenarios:\n- {scenario: pause, tolerances: {failed: some}}\n",
            "the tolerance of 'failed' is of type at_most and cannot be 'some'; give a number.",
        ),
        (
            "scenarios:\n- {scenario: eviction-order, tolerances: {chain_kept_share: [0.9, 0.1]}}\n",
            "is of type between and cannot be [0.9, 0.1]; give [low, high].",
        ),
    ],
)
def test_a_mistake_in_a_suite_is_told_with_its_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        find_suite([str(path)])
    assert says in str(error.value)


def test_a_suite_sets_the_limits_of_expectations_and_leaves_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "scenarios:\n"
        "- {scenario: eviction-order, tolerances: {pool_share_usable: 0.5, chain_kept_share: [0.1, 0.9]}}\n"
        "- {scenario: reset-busy, tolerances: {preempting_reset: [applied]}}\n"
        "- eviction-order\n"
    )
    changed, busy, plain = [
        {e.name: e.tolerance.describe() for e in scenario.expectations(settings)}
        for scenario, settings in plan_suite(find_suite([str(path)]), {}, 1)
    ]
    assert changed == {
        "pool_share_usable": "at least 0.5",
        "recent_kept_share": "at least 0.95",
        "chain_kept_share": "between 0.1 and 0.9",
    }
    assert busy["preempting_reset"] == "one of applied"
    assert plain["pool_share_usable"] == "at least 0.95"


def test_a_suite_stands_alone() -> None:
    with pytest.raises(UsageError, match="'smoke' is a suite and stands alone"):
        find_suite(["pause", "smoke"])


def test_what_cannot_run_is_skipped_with_the_reason_and_never_passed(scripted: ModuleType, world: Any) -> None:
    target = scripted.target_at("http://127.0.0.1:1")
    planned = plan(["pause", "core-kill", "one-replica-reset", "counters-honest"], SETTINGS)
    results = run_planned(target, planned, world.folder, 7, tools=scripted.tools_of(world))
    assert (results.verdicts, results.ok) == ([], False)
    only_http = "the target file names no 'start', 'process' or 'docker' for it, so only HTTP reaches it"
    assert [(one.scenario, one.reason) for one in results.skipped] == [
        ("pause", f"nothing may pause the engine: {only_http}"),
        ("core-kill", f"nothing may kill the core of the engine: {only_http}"),
        ("one-replica-reset", "the target names no other replica"),
        ("counters-honest", "http://127.0.0.1:1/metrics has no counters of query and hit tokens"),
    ]
    written = json.loads((world.folder / "skipped.json").read_text())
    assert [one["scenario"] for one in written] == ["pause", "core-kill", "one-replica-reset", "counters-honest"]
    assert "fault" not in (world.folder / "journal.jsonl").read_text().replace('"default"', "")
    assert world.started == [], "nothing that is skipped needs a load"


def test_a_plan_is_repeated_until_its_time_is_over(scripted: ModuleType, world: Any) -> None:
    target = scripted.target_at("http://127.0.0.1:1")
    planned = plan(["reset-prefix-cache"], SETTINGS)
    results = run_planned(
        target, planned, world.folder, 7, tools=scripted.tools_of(world), until_s=world.now() + 30
    )
    assert len(results.verdicts) > 1
    assert {verdict.verdict for verdict in results.verdicts} == {"ok"}
    assert [name for name, _ in world.started] == ["background"], "one load for all of them"


def test_no_load_ends_in_the_middle_of_a_repeated_plan(scripted: ModuleType, world: Any) -> None:
    target, tools = scripted.target_at("http://127.0.0.1:1"), scripted.tools_of(world)
    planned = plan(["reset-prefix-cache"], SETTINGS)
    results = run_planned(target, planned, world.folder, 7, tools=tools, until_s=world.now() + 900)
    assert {(verdict.verdict, *verdict.problems) for verdict in results.verdicts} == {("ok",)}
    lasted_s = [settings["duration"] for name, settings in world.started if name == "background"]
    # A killed run leaves it behind for so long; outputs are checked for as long as the fault is held.
    assert len(lasted_s) > 1
    assert max(lasted_s) <= sum(SETTINGS.values()) + SETTINGS["hold"] + 60 + 600


@pytest.mark.parametrize(
    ("scenario", "trouble"),
    [("core-kill", {}), ("lora-churn", {"unload_adapter_status": 500})],
    ids=["everything is skipped", "the system is not restored"],
)
def test_a_plan_of_which_nothing_can_be_begun_any_more_is_not_repeated(
    scripted: ModuleType, world: Any, scenario: str, trouble: dict[str, Any]
) -> None:
    for name, value in trouble.items():
        assert hasattr(world, name)
        setattr(world, name, value)
    target, tools = scripted.target_at("http://127.0.0.1:1"), scripted.tools_of(world)
    planned = plan([scenario], SETTINGS)
    results = run_planned(target, planned, world.folder, 7, tools=tools, until_s=world.now() + 10**6)
    assert len(results.verdicts) + len(results.skipped) == 1


def test_a_load_that_ended_is_started_again_for_the_next_scenario(scripted: ModuleType, world: Any) -> None:
    def end_the_load(step: str) -> None:
        if step.startswith("send POST") and "reset_prefix_cache" in step and len(world.started) == 1:
            world.running.pop("background", None)

    world.interrupt = end_the_load
    target, tools = scripted.target_at("http://127.0.0.1:1"), scripted.tools_of(world)
    planned = plan(["reset-prefix-cache", "lora-churn"], SETTINGS)
    results = run_planned(target, planned, world.folder, 7, tools=tools)
    assert [verdict.verdict for verdict in results.verdicts] == ["invalid", "ok"]
    assert "the load 'background' ended" in results.verdicts[0].problems
    assert [name for name, _ in world.started if name == "background"] == ["background"] * 2


JUDGED = [
    Judgement("wrong_outputs", 1, False, "answers that differ: 1, expected at most 0 (tolerance at_most)"),
    Judgement("recovery_s", 1.5, True, "seconds: 1.5"),
    Judgement("hits_off", None, None, "hit tokens: no value"),
]
BAD = Verdict("one", "One", "bad", "e", "It \x00 fell | so.", problems=["WRONG OUTPUT: x"], judgements=JUDGED)
GOOD = Verdict("two", "Two", "ok", "e", "fine.", judgements=JUDGED[1:2])
SKIPPED = Skipped("three", "Three", "nothing may pause it", 1.0)


def test_junit_has_a_case_for_each_hypothesis_and_each_skip(tmp_path: Path) -> None:
    write_junit(tmp_path / "j.xml", "t", [BAD, GOOD], [SKIPPED], suite="Nightly")
    root = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert {key: root.get(key) for key in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "hitcurve Nightly on t",
        "tests": "7",
        "failures": "2",
        "errors": "1",
        "skipped": "1",
    }
    outcomes = {str(case.get("name")): [child.tag for child in case if child.tag != "properties"] for case in root}
    assert outcomes == {
        "one": ["failure"],
        "one.wrong_outputs": ["failure"],
        "one.recovery_s": [],
        "one.hits_off": ["error"],
        "two": [],
        "two.recovery_s": [],
        "three": ["skipped"],
    }


def not_in_xml(c: str) -> bool:
    """XML 1.0, production 2."""
    return (c < " " and c not in "\t\n\r") or "\ud800" <= c <= "\udfff" or c in "\ufffe\uffff"


@given(said=st.text(min_size=1) | st.sampled_from(["\x00\x1b[31m", "\ufffe\uffff", "\ud800", "<&>]]>\"'"]))
def test_whatever_an_engine_says_junit_can_be_read(said: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("junit") / "j.xml"
    problem = Judgement("hits_off", None, False, said)
    bad = replace(BAD, seen=said, problems=[said], numbers={"said": said}, judgements=[problem])
    write_junit(path, "t", [bad], [replace(SKIPPED, reason=said)])
    failed, missed, skipped = ElementTree.parse(path).getroot()
    reasons = [failed.find("failure"), missed.find("failure"), skipped.find("skipped")]
    told = "".join("\ufffd" if not_in_xml(c) else c for c in said)
    assert {None if reason is None else reason.get("message") for reason in reasons} == {told}


def test_the_markdown_summary_tells_wrong_hits_first() -> None:
    assert summary("Nightly", "t", 7, [GOOD, BAD], [SKIPPED]) == (
        "## hitcurve chaos: Nightly on t\n\n"
        "**1 of 2 scenarios are ok**, 1 skipped. Seed 7.\n\n"
        "> [!CAUTION]\n> WRONG OUTPUT: x\n\n"
        "| scenario | verdict | hypotheses | seen |\n|---|---|---|---|\n"
        "| two | ✅ ok | 1/1 | fine. |\n"
        "| one | ❌ bad | 1/3 | It \x00 fell \\| so.<br>WRONG OUTPUT: x |\n"
        "\nSkipped, and so neither passed nor failed:\n\n- `three`: nothing may pause it\n"
    )


@pytest.mark.parametrize(
    ("verdicts", "ok"), [([], False), ([GOOD], True), ([GOOD, BAD], False)], ids=["nothing", "good", "one bad"]
)
def test_only_something_tried_and_all_of_it_ok_is_ok(verdicts: list[Verdict], ok: bool) -> None:
    assert Results(verdicts, [SKIPPED]).ok is ok


def test_the_page_says_which_scenario_runs() -> None:
    active = ActiveScenario()
    with serve_active(active, "127.0.0.1:0") as url:
        active.begin("pause")
        active.end("pause")
        active.begin("reset-idle")
        with urllib.request.urlopen(url, timeout=5) as answer:
            page = answer.read().decode()
    assert page.splitlines() == [
        f"# HELP hitcurve_chaos_active {metric_named('hitcurve_chaos_active').help}",
        "# TYPE hitcurve_chaos_active gauge",
        'hitcurve_chaos_active{scenario="pause"} 0',
        'hitcurve_chaos_active{scenario="reset-idle"} 1',
    ]


@pytest.mark.parametrize("listen", ["9478", "127.0.0.1:", "127.0.0.1:port", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_had_is_wrong_usage(listen: str) -> None:
    with pytest.raises(UsageError, match="--metrics-listen"), serve_active(ActiveScenario(), listen):
        raise AssertionError("unreachable")
