"""A fault that hurts more than it may is ended at once; an engine that is silent is left alone."""

from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.journal import read_journal
from hitcurve_chaos.runner import run_scenarios

SETTINGS = {"baseline": 5, "baseline_within": 30, "hold": 30, "recover_within": 20}


def run(scripted: ModuleType, world: Any, names: list[str], **settings: Any) -> Any:
    target = scripted.target_at("http://127.0.0.1:1")
    return run_scenarios(target, names, world.folder, 7, SETTINGS | settings, tools=scripted.tools_of(world))


@pytest.mark.parametrize(("share", "aborted"), [(0.5, True), (1.0, False)])
def test_a_fault_under_which_requests_fail_is_ended_before_its_time_and_undone(
    share: float, aborted: bool, scripted: ModuleType, world: Any
) -> None:
    def hurt(step: str) -> None:
        world.requests_fail = world.requests_fail or step.startswith("start pressure")

    world.interrupt = hurt
    (verdict,) = run(scripted, world, ["pool-pressure"], abort_failed_share=share)
    assert verdict.verdict == "invalid"
    events = [entry.event for entry in read_journal(world.folder)]
    assert ("fault_aborted" in events) is aborted
    assert events.index("fault_undone") > events.index("fault_injected")
    assert world.running == {}
    lasted_s = verdict.fault_to_s - verdict.fault_from_s
    if aborted:
        assert 4.5 <= lasted_s <= 7
        assert verdict.problems[0] == "aborted: 5 of 5 background requests failed during the fault"
    else:
        assert lasted_s >= 30


def test_after_an_engine_fell_silent_no_further_scenario_is_started(scripted: ModuleType, world: Any) -> None:
    world.engine_hangs_after_fault = True
    world.interrupt = lambda step: setattr(world, "traffic", world._reset_s is None)
    first, second = run(scripted, world, ["reset-prefix-cache", "pool-pressure"], hold=6, correctness="false")
    assert first.verdict == "bad"
    assert first.problems[:2] == [
        "system not restored: the engine completes no request, and nothing may start it (the target file names no "
        "'start', 'process' or 'docker' for it, so only HTTP reaches it)",
        "the engine completed no request after the fault",
    ]
    assert not first.restored
    assert (second.verdict, second.fault_from_s) == ("invalid", None)
    assert second.problems == ["not started, system not restored after reset-prefix-cache"]
