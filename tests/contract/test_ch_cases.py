"""The CH cases: how resets, rollbacks and probes went wrong elsewhere, and what is right.

Longer than 300 lines because every case of the letter stands in one file.
"""

import importlib.util
import json
import random
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve import cli
from hitcurve_chaos import carry_out
from hitcurve_chaos.calls import HttpTransport
from hitcurve_chaos.engine_counters import EngineCounters
from hitcurve_chaos.faults.reset import ResetFault
from hitcurve_chaos.hypothesis import AtMost, Expectation
from hitcurve_chaos.idle import usage_after_a_request
from hitcurve_chaos.journal import read_journal
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.runner import plan, run_planned, run_scenarios
from hitcurve_chaos.targets import AdminAccess

SETTINGS = {"baseline": 5, "baseline_within": 30, "hold": 6, "recover_within": 20}


@pytest.fixture(scope="module")
def scripted(repository: Path) -> ModuleType:
    """The scripted world of the chaos tests, loaded by its path (tests are no package)."""
    path = repository / "tests" / "chaos" / "scripted_world.py"
    spec = importlib.util.spec_from_file_location("scripted_world_of_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def world(scripted: ModuleType, tmp_path: Path) -> Any:
    return scripted.ScriptedWorld(tmp_path)


def run(scripted: ModuleType, world: Any, *names: str, **settings: Any) -> Any:
    target = scripted.target_at("http://127.0.0.1:1")
    tools = scripted.tools_of(world)
    (verdict,) = run_scenarios(target, names, world.folder, 7, SETTINGS | settings, tools=tools)
    return verdict


def events(world: Any) -> list[str]:
    return [entry.event for entry in read_journal(world.folder)]


def final_outcome(row: dict[str, Any]) -> str:
    """The outcome the case expects, in one word."""
    text: str = row.get("final") or row["outcome"]
    return text.replace(",", " ").replace(":", " ").split()[0]


@pytest.mark.parametrize("number", range(7))
def test_ch_01_reset_answers(number: int, shared: Path, scripted: ModuleType, world: Any) -> None:
    rows = [json.loads(line) for line in (shared / "cases/CH-01/exchange.jsonl").read_text().splitlines()]
    assert len(rows) == 7
    row = rows[number]
    world.reset_answers = [(row["status"], row["body"])]
    if "probe_cached_tokens_after" in row:
        world.probe_cached_tokens = (row.get("probe_cached_tokens_before"), row["probe_cached_tokens_after"])
    path = row["request"].removeprefix("POST ")
    with scripted.serve(world) as url:
        target = scripted.target_at(url, admin=AdminAccess(reset_path=path))
        transport = HttpTransport()
        probe = Probe(target, transport, random.Random(1), world, world.folder / "requests.jsonl")
        injection = ResetFault(target, transport, probe, world, preempt=True, mark=None).inject()
    assert injection.outcome == final_outcome(row)
    assert ("POST", path, None) in world.calls


@pytest.mark.parametrize(
    ("answer", "tells", "word"),
    [
        ((200, '{"success": false}'), True, "invalid"),
        ((404, '{"detail":"Not Found"}'), True, "invalid"),
        ((200, ""), False, "invalid"),
        ((200, '{"success": true}'), True, "ok"),
    ],
)
def test_ch_01_only_an_applied_reset_counts_as_injected(
    answer: tuple[int, str], tells: bool, word: str, scripted: ModuleType, world: Any
) -> None:
    world.reset_answers = [answer]
    world.tells_cached_tokens = tells
    verdict = run(scripted, world, "reset-prefix-cache")
    assert verdict.verdict == word
    assert (verdict.fault_from_s is None) == (word == "invalid")
    assert verdict.problems == [] if word == "ok" else verdict.problems[0].startswith("not injected")
    assert ("fault_injected" in events(world)) == (word == "ok")
    assert bool(world.marks) == (word == "ok")


def test_ch_05_a_busy_engine_is_asked_again_with_growing_pauses_and_not_for_ever(
    scripted: ModuleType, world: Any
) -> None:
    world.reset_answers = [(400, f"not flushed: {n} requests still pending") for n in (5, 4, 3, 2, 1)]
    verdict = run(scripted, world, "reset-prefix-cache")
    asked = [path for _, path, _ in world.calls if path.startswith("/reset_prefix_cache")]
    assert asked == ["/reset_prefix_cache"] * 4 + ["/reset_prefix_cache?reset_running_requests=true"]
    assert [pause for pause in world.sleeps if pause > 0.21] == [0.4, 0.8, 1.6]
    assert verdict.verdict == "invalid"
    assert "not flushed: 1 requests still pending" in verdict.seen


def test_ch_05_running_requests_are_not_preempted_unless_allowed(scripted: ModuleType, world: Any) -> None:
    world.reset_answers = [(200, '{"success":false}')]
    run(scripted, world, "reset-prefix-cache", reset_running_requests="false")
    asked = [path for _, path, _ in world.calls if path.startswith("/reset_prefix_cache")]
    assert asked == ["/reset_prefix_cache"] * 5


@pytest.mark.parametrize("error", [None, RuntimeError("a bug"), KeyboardInterrupt()])
def test_ch_06_a_started_fault_is_undone_on_deviation_error_and_ctrl_c(
    error: BaseException | None, scripted: ModuleType, world: Any
) -> None:
    world.recovers = False

    def interrupt(step: str) -> None:
        if error is not None and step == "sleep" and world.adapters:
            raise error

    world.interrupt = interrupt
    if error is None:
        assert run(scripted, world, "lora-churn").verdict == "bad"
    else:
        with pytest.raises(type(error)):
            run(scripted, world, "lora-churn")
    assert world.adapters == set()
    assert world.running == {}
    assert events(world).index("fault_undone") > events(world).index("fault_injected")
    assert json.loads((world.folder / "verdicts.json").read_text())[0]["verdict"] in ("bad", "invalid")


def test_ch_07_without_its_hypothesis_nothing_is_injected_and_nothing_undone(
    scripted: ModuleType, world: Any
) -> None:
    world.steady = False
    verdict = run(scripted, world, "lora-churn")
    assert events(world) == ["scenario_started", "baseline_started", "hypothesis_not_met", "scenario_finished"]
    assert [call for call in world.calls if "lora" in call[1]] == []
    assert verdict.verdict == "invalid"
    assert verdict.problems[0].startswith("not injected: the curve was not steady for 5 s within 30 s")


def test_ch_08_a_rollback_that_fails_is_not_a_success(
    scripted: ModuleType, world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.unload_adapter_status = 500
    tools = scripted.tools_of(world)
    monkeypatch.setattr(carry_out, "run_planned", partial(run_planned, tools=tools))
    monkeypatch.setattr(carry_out, "HttpTransport", lambda: world)
    targets = world.folder / "targets.yaml"
    targets.write_text(
        "targets:\n- {name: t, engine: 'http://127.0.0.1:1', model: m, exporter: 'http://127.0.0.1:1',"
        " load: {profile: unique}}\n"
    )
    words = ["chaos", "run", "lora-churn", "reset-prefix-cache", "--targets", str(targets), "--json"]
    words += ["--baseline", "5s", "--hold", "6s", "--recover-within", "20s", "--out", str(world.folder)]
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 1
    churn, reset = json.loads(capsys.readouterr().out)
    assert (churn["verdict"], churn["restored"]) == ("bad", False)
    assert churn["problems"][0].startswith("system not restored: ")
    assert "fault_undo_failed" in events(world)
    assert (reset["verdict"], reset["fault_from_s"]) == ("invalid", None)
    assert reset["problems"] == ["not started, system not restored after lora-churn"]


def test_ch_09_a_value_outside_its_tolerance_fails_the_scenario_and_the_tolerance_is_named(
    scripted: ModuleType, world: Any
) -> None:
    verdict = run(scripted, world, "reset-prefix-cache", fall=0.75)
    assert verdict.verdict == "bad"
    assert (
        "fall below the lowest rate of the baseline: 0.7, expected at least 0.75 (tolerance at_least)"
        in verdict.problems
    )


def test_ch_11_an_engine_that_completes_nothing_has_not_recovered(scripted: ModuleType, world: Any) -> None:
    world.engine_hangs_after_fault = True
    world.late_s = None
    background = world._request

    def hung(name: str, rate: float) -> dict[str, Any]:
        failed = {"outcome": "failed", "status": None, "reason": "no byte for 10 s"}
        return background(name, rate) | (failed if world._fault_ended_s else {})

    world._request = hung
    verdict = run(scripted, world, "pool-pressure")
    assert world.readings[-1].state.state == "steady"
    assert (verdict.verdict, verdict.recovered_at_s) == ("bad", None)
    assert verdict.problems[0].startswith("system not restored: the engine completes no request")
    assert verdict.problems[1] == "the engine completed no request after the fault"


@pytest.mark.parametrize(("usage", "evicts", "word"), [(0.0, True, "ok"), (1.0, False, "invalid")])
def test_ch_12_pressure_is_known_by_evictions_and_not_by_the_usage_gauge(
    usage: float, evicts: bool, word: str, scripted: ModuleType, world: Any
) -> None:
    world.pressure_usage = usage
    world.pressure_evicts = evicts
    if not evicts:
        world._curve = lambda: ("steady", None, 0.8)
    verdict = run(scripted, world, "pool-pressure")
    assert verdict.numbers["highest_kv_usage"] == usage
    assert verdict.verdict == word


def test_ch_14_probe_prompts_are_sent_by_nobody_else(scripted: ModuleType, world: Any) -> None:
    run(scripted, world, "reset-prefix-cache", correctness="false")
    prompts = {prompt for _, prompt in world.prompts}
    first_words = {prompt.split()[0] for prompt in prompts}
    assert len(world.prompts) > len(prompts) >= 1
    assert len(first_words) == len(prompts)
    lines = [json.loads(line) for line in (world.folder / "requests.jsonl").read_text().splitlines()]
    assert {line["group"] for line in lines if line["load"] == "probe"} == {"probe"}
    assert {line["group"] for line in lines if line["load"] == "background"} == {"g"}


@pytest.mark.parametrize("one_keeps_its_cache", [False, True])
def test_ch_02_a_reset_reaches_one_replica_and_a_fleet_only_when_sent_to_each(
    one_keeps_its_cache: bool, scripted: ModuleType, tmp_path: Path
) -> None:
    worlds = [scripted.ScriptedWorld(tmp_path) for _ in range(3)]
    worlds[2].reset_clears = not one_keeps_its_cache
    with ExitStack() as stack:
        targets = [
            scripted.target_at(stack.enter_context(scripted.serve(world)), name=f"t{number}")
            for number, world in enumerate(worlds)
        ]
        target = replace(targets[0], replicas=tuple(targets[1:]))
        tools = scripted.tools_of(worlds[0], HttpTransport())
        planned = plan(["one-replica-reset"], {"recover_within": 20})
        (verdict,) = run_planned(target, planned, tmp_path, 7, tools=tools).verdicts
    assert (verdict.numbers["reset_reached"], verdict.numbers["one_address_word"]) == ("1/3", "partial")
    if one_keeps_its_cache:
        assert (verdict.numbers["fan_out"], verdict.numbers["fan_out_word"]) == (2, "partial")
        assert verdict.verdict == "bad"
        assert verdict.problems == [
            "a reset sent to every replica is: partial, expected one of applied (tolerance one_of)"
        ]
    else:
        assert (verdict.numbers["fan_out"], verdict.numbers["fan_out_word"]) == (3, "applied")
        assert "then all (3/3)" in verdict.seen
        assert verdict.verdict == "ok"


@pytest.mark.parametrize(
    ("still_answers", "stale", "problem"),
    [
        (False, False, None),
        (True, False, "answers of the adapter while it was unloaded: 1, expected at most 0 (tolerance at_most)"),
        (False, True, "answers that the old weights gave: 1, expected at most 0 (tolerance at_most)"),
    ],
)
def test_ch_03_an_adapter_is_gone_when_it_does_not_answer_and_new_when_its_answers_are(
    still_answers: bool, stale: bool, problem: str | None, scripted: ModuleType, tmp_path: Path
) -> None:
    world = scripted.ScriptedWorld(tmp_path)
    world.unloaded_adapters_answer, world.reloaded_adapters_are_stale = still_answers, stale
    target = scripted.target_at("http://127.0.0.1:1")
    planned = plan(["adapter-reload"], {"recover_within": 20})
    (verdict,) = run_planned(target, planned, tmp_path, 7, tools=scripted.tools_of(world)).verdicts
    assert verdict.numbers["answers_after_unload"] == int(still_answers)
    assert verdict.verdict == ("ok" if problem is None else "bad")
    assert problem is None or problem in verdict.problems
    assert {"resident_bytes_before", "resident_bytes_after"} <= set(verdict.numbers), "the trend of memory"
    assert world.adapters == set()


@pytest.mark.parametrize(("falls", "usage"), [(True, 0.0), (False, 0.99)])
def test_ch_10_a_gauge_that_only_a_step_renews_is_read_after_a_request_and_not_waited_for(
    falls: bool, usage: float, scripted: ModuleType, world: Any
) -> None:
    """vLLM's usage stays at 0.99 after a mass cancel until the next step."""
    target = scripted.target_at("http://127.0.0.1:1")
    probe = Probe(target, world, random.Random(1), world, world.folder / "requests.jsonl")
    began_s = world.now()

    def counters() -> EngineCounters:
        renewed = falls and bool(world.prompts)
        return EngineCounters(*(None,) * 7, 0.0 if renewed else 0.99, *(None,) * 3)

    assert counters().kv_usage == 0.99
    assert usage_after_a_request(probe, world, counters, 0.0, 5.0) == usage
    waited_s = world.now() - began_s
    assert waited_s == 0.0 if falls else 5.0 <= waited_s < 5.5
    # A time-out tells which signal was stale.
    signal = Expectation("kv_usage_left", "share of the pool still held when nothing runs", AtMost(0.005))
    assert signal.judge(usage).met is falls
    assert "share of the pool still held" in signal.judge(usage).sentence
