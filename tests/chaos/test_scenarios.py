"""The scenarios against the scripted world: what makes them ok, and every way in which they are not."""

import json
from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.journal import read_journal
from hitcurve_chaos.runner import run_scenarios
from hitcurve_chaos.verdict import Verdict

SETTINGS = {"baseline": 5, "baseline_within": 30, "hold": 6, "recover_within": 20}


def run(scripted: ModuleType, world: Any, *names: str, target: Any = None, **settings: Any) -> list[Verdict]:
    target = target or scripted.target_at("http://127.0.0.1:1")
    return run_scenarios(target, names, world.folder, 7, SETTINGS | settings, tools=scripted.tools_of(world))


def events(world: Any) -> list[tuple[str, str]]:
    return [(entry.scenario, entry.event) for entry in read_journal(world.folder)]


def test_a_reset_is_applied_seen_marked_and_recovered_from(scripted: ModuleType, world: Any) -> None:
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    assert (verdict.verdict, verdict.problems, verdict.restored) == ("ok", [], True)
    assert [(change.state, change.cause) for change in verdict.states] == [
        ("steady", None),
        ("collapsed", "reset"),
        ("warming", None),
        ("steady", None),
    ]
    assert verdict.numbers["baseline_rate"] == pytest.approx(0.8)
    assert verdict.numbers["lowest_rate"] == pytest.approx(0.1)
    assert verdict.numbers["scrapes_to_name"] == verdict.numbers["scrapes_to_fall"] == 1
    assert verdict.numbers["rate_based_drop"] == pytest.approx(0.7)
    assert verdict.numbers["request_window_drop"] == 0
    assert 0 < verdict.numbers["cumulative_drop"] < 0.7
    assert verdict.numbers["request_window_lag_s"] == 100
    # 0.7 of one second and 0.3 of the four that it climbs, of 1000 query tokens a second.
    assert verdict.numbers["tokens_lost"] == pytest.approx(700 + 4 * 300)
    assert verdict.numbers["recovered_rate"] == pytest.approx(0.8)
    assert (verdict.numbers["requests_sent"], verdict.numbers["requests_failed"]) == (6, 0)
    assert world.marks == [{"target": "t", "kind": "reset", "at_s": verdict.fault_from_s}]


def test_a_reset_without_mark_tells_nobody(scripted: ModuleType, world: Any) -> None:
    (verdict,) = run(scripted, world, "reset-prefix-cache", mark="false")
    assert verdict.verdict == "ok"
    assert world.marks == []


def test_the_journal_tells_the_steps_in_order(scripted: ModuleType, world: Any) -> None:
    run(scripted, world, "reset-prefix-cache")
    assert [event for _, event in events(world)] == [
        "scenario_started",
        "baseline_started",
        "hypothesis_met",
        "fault_injecting",
        "fault_injected",
        "fault_undoing",
        "fault_undone",
        "recovered",
        "scenario_finished",
    ]


def test_the_run_folder_holds_what_its_contract_says(scripted: ModuleType, world: Any) -> None:
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    (written,) = json.loads((world.folder / "verdicts.json").read_text())
    assert list(written) == [
        "scenario",
        "title",
        "verdict",
        "expected",
        "seen",
        "numbers",
        "baseline_from_s",
        "fault_from_s",
        "fault_to_s",
        "recovered_at_s",
        "finished_at_s",
        "states",
        "restored",
        "problems",
        "judgements",
    ]
    assert [judged["met"] for judged in written["judgements"]] == [True] * 9
    assert written["numbers"] == verdict.numbers
    readings = [json.loads(line) for line in (world.folder / "readings.jsonl").read_text().splitlines()]
    assert [reading["at_s"] for reading in readings] == [reading.at_s for reading in world.readings]
    *_, last = read_journal(world.folder)
    assert last.detail["verdict"] == "ok"
    loads = {json.loads(line)["load"] for line in (world.folder / "requests.jsonl").read_text().splitlines()}
    assert loads == {"background", "probe"}


def test_pressure_falls_is_named_and_ends(scripted: ModuleType, world: Any) -> None:
    (verdict,) = run(scripted, world, "pool-pressure")
    assert (verdict.verdict, verdict.problems) == ("ok", [])
    assert (verdict.numbers["named_state"], verdict.numbers["named_cause"]) == ("degraded", "pool_pressure")
    assert verdict.numbers["evicted_blocks"] == 600
    assert verdict.numbers["client_hits_lost"] == pytest.approx(0.4)
    assert verdict.numbers["signs_of_pressure"] == 2
    name, settings = world.started[1]
    # The pool of 16,000 tokens is filled once in 5 s by prompts of an eighth of it.
    assert (name, settings["prefix_tokens"] + settings["suffix_tokens"]) == ("pressure-1", 2000)
    assert settings["rate"] == pytest.approx(1.6)
    assert world.running == {}


def test_pressure_is_raised_while_nothing_is_evicted_and_is_invalid_when_it_never_bites(
    scripted: ModuleType, world: Any
) -> None:
    world.pressure_evicts = False
    world._curve = lambda: ("steady", None, 0.8)
    (verdict,) = run(scripted, world, "pool-pressure", hold=20)
    assert verdict.verdict == "invalid"
    assert verdict.problems[0].startswith("the fault did not bite")
    rates = [settings["rate"] for name, settings in world.started if name.startswith("pressure")]
    assert rates == pytest.approx([1.6, 3.2, 6.4, 12.8])


def test_a_reset_that_does_not_clear_is_not_ok(scripted: ModuleType, world: Any) -> None:
    world.reset_clears = False
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    assert verdict.verdict == "bad"
    assert verdict.problems[0].startswith("not injected (partial)")


def test_a_reset_that_the_curve_does_not_show_is_bad(scripted: ModuleType, world: Any) -> None:
    world._curve = lambda: ("steady", None, 0.8)
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    assert verdict.verdict == "bad"
    assert verdict.problems == [
        "fall below the lowest rate of the baseline: 0, expected at least 0.05 (tolerance at_least)",
        "scrapes until the hit rate fell: never, expected at most 2 (tolerance at_most)",
        "scrapes until the curve state named it: never, expected at most 2 (tolerance at_most)",
    ]


def test_a_curve_that_does_not_recover_is_bad(scripted: ModuleType, world: Any) -> None:
    world.recovers = False
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    assert (verdict.verdict, verdict.recovered_at_s, verdict.restored) == ("bad", None, True)
    assert verdict.problems == [
        "seconds until the curve was steady near its baseline: never, expected at most 20 (tolerance at_most)"
    ]
    assert ("reset-prefix-cache", "not_recovered") in events(world)


def test_failed_background_requests_make_it_invalid(scripted: ModuleType, world: Any) -> None:
    def fail_after_the_reset(step: str) -> None:
        world.requests_fail = world._reset_s is not None

    world.interrupt = fail_after_the_reset
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    assert verdict.verdict == "invalid"
    aborted, failed = verdict.problems[:2]
    assert aborted == "aborted: 5 of 5 background requests failed during the fault"
    assert "background requests failed (HTTP 500)" in failed


def test_a_lagging_load_generator_makes_it_invalid(scripted: ModuleType, world: Any) -> None:
    world.late_s = 0.9
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    assert verdict.verdict == "invalid"
    assert verdict.problems == ["the load generator lagged: 0.90 s late at p99, the limit is 0.25 s"]


@pytest.mark.parametrize(
    ("change", "word", "reason"),
    [
        ({"traffic": False}, "no_data", "nothing was looked up in the cache within 30 s: there is no traffic"),
        ({"scrapes": False}, "no_data", "the exporter has no target"),
        ({"steady": False}, "invalid", "it is oscillating"),
        ({"requests_fail": True}, "invalid", "the traffic was not sound within 30 s"),
    ],
)
def test_without_a_steady_curve_and_sound_traffic_nothing_is_judged(
    scripted: ModuleType, world: Any, change: dict[str, Any], word: str, reason: str
) -> None:
    for name, value in change.items():
        setattr(world, name, value)
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    assert verdict.verdict == word
    assert reason in verdict.problems[0]
    assert verdict.fault_from_s is None


def test_a_curve_moved_by_others_does_not_stand_for_the_background_load(scripted: ModuleType, world: Any) -> None:
    world._request = lambda name, rate: {"at_s": world.now_s, "load": "others", "outcome": "ok"}
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    assert (verdict.verdict, verdict.fault_from_s) == ("invalid", None)
    assert verdict.problems[0].endswith("no background request was answered")


def test_the_scrapes_before_a_reset_shows_do_not_count_as_recovered(scripted: ModuleType, world: Any) -> None:
    at_once = world._curve

    def a_scrape_late() -> Any:
        just_reset = world._reset_s is not None and world.now_s - world._reset_s <= 1
        return ("steady", None, 0.8) if just_reset else at_once()

    world._curve = a_scrape_late
    (verdict,) = run(scripted, world, "reset-prefix-cache", hold=3)
    assert verdict.verdict == "ok"
    assert verdict.numbers["scrapes_to_name"] == verdict.numbers["scrapes_to_fall"] == 2
    assert verdict.numbers["recovery_s"] == pytest.approx(6, abs=1)


def test_steady_at_a_lower_level_is_not_recovered(scripted: ModuleType, world: Any) -> None:
    usual = world._curve

    def lower_afterwards() -> Any:
        state, cause, rate = usual()
        return state, cause, 0.7 if state == "steady" and world._reset_s else rate

    world._curve = lower_afterwards
    (verdict,) = run(scripted, world, "reset-prefix-cache")
    assert (verdict.verdict, verdict.recovered_at_s) == ("bad", None)
    assert verdict.numbers["recovered_rate"] == pytest.approx(0.7)


def test_several_scenarios_share_one_background_load(scripted: ModuleType, world: Any) -> None:
    verdicts = run(scripted, world, "reset-prefix-cache", "pool-pressure", "lora-churn")
    assert [verdict.verdict for verdict in verdicts] == ["ok", "ok", "ok"]
    assert [name for name, _ in world.started].count("background") == 1
    assert world.running == {}


def test_the_same_seed_sends_the_same_probes(scripted: ModuleType, tmp_path: Any) -> None:
    sent = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        world = scripted.ScriptedWorld(tmp_path / name)
        run(scripted, world, "reset-prefix-cache")
        # Prompts of token ids begin with what no other run draws, so that the same seed may be run again.
        sent.append([prompt for _, prompt in world.prompts if not prompt.startswith("[")])
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    ("of_others", "verdict", "problems"),
    [
        (400, "ok", []),
        (
            600,
            "invalid",
            [
                "others use the engine: 60 % of the tokens that it looked up before the fault are of no request "
                "of the run"
            ],
        ),
    ],
)
def test_a_curve_that_is_mostly_of_others_proves_nothing(
    scripted: ModuleType, world: Any, of_others: int, verdict: str, problems: list[str]
) -> None:
    world.of_others = of_others
    (found,) = run(scripted, world, "reset-prefix-cache")
    assert (found.verdict, found.problems) == (verdict, problems)
    assert found.numbers["foreign_share"] == pytest.approx(of_others / 1000)


def test_the_traffic_of_others_is_what_is_judged_where_the_target_has_no_load(
    scripted: ModuleType, world: Any
) -> None:
    world.start("others", {"duration": 10**6})
    target = scripted.target_at("http://127.0.0.1:1", load={})
    (found,) = run(scripted, world, "reset-prefix-cache", target=target)
    assert (found.verdict, found.problems) == ("ok", [])
    assert "foreign_share" not in found.numbers
