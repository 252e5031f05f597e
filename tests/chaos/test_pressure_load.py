"""A pressure load that takes long to begin, as on a busy machine."""

from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.faults.unique_traffic import UniqueTrafficFault, pressure_size
from hitcurve_chaos.runner import run_scenarios

SETTINGS = {"baseline": "5s", "hold": "8s", "recover_within": "20s"}


def test_pressure_is_not_raised_before_it_was_felt(world: Any) -> None:
    world.load_start_s = 12.0
    size = pressure_size(8192, 5.0)
    fault = UniqueTrafficFault(world, world, size, seed=1, lasts_s=60.0, bites=lambda: False)
    began_s = world.now_s
    assert fault.inject().outcome == "applied"
    assert world.now_s == began_s + 12.0
    fault.tick(lambda step: None)
    assert fault.raises == 0
    world.sleep(3.0)
    fault.tick(lambda step: None)
    assert (fault.raises, [settings["rate"] for _, settings in world.started]) == (1, [size.rate, 2 * size.rate])


@pytest.mark.parametrize("scenario", ["pool-pressure", "lora-churn"])
def test_the_fault_lasts_from_when_its_load_began_to_send(scripted: ModuleType, world: Any, scenario: str) -> None:
    world.load_start_s = 12.0
    target, tools = scripted.target_at("http://127.0.0.1:1"), scripted.tools_of(world)
    (verdict,) = run_scenarios(target, [scenario], world.folder, 7, SETTINGS, tools=tools)
    assert verdict.verdict == "ok", verdict.problems
    assert verdict.fault_from_s is not None
    assert verdict.fault_to_s is not None
    assert verdict.fault_to_s - verdict.fault_from_s >= 12 + 8
