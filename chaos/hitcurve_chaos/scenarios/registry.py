"""The scenarios by name. A new one is a file of its own and a line here."""

import difflib
from collections.abc import Sequence

from hitcurve.errors import UsageError
from hitcurve_chaos.scenarios.lora_churn import LORA_CHURN
from hitcurve_chaos.scenarios.pool_pressure import POOL_PRESSURE
from hitcurve_chaos.scenarios.reset_prefix_cache import RESET_PREFIX_CACHE
from hitcurve_chaos.scenarios.scenario import Scenario

__all__ = ["SCENARIOS", "find_scenarios"]

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for scenario in (RESET_PREFIX_CACHE, POOL_PRESSURE, LORA_CHURN)
}


def find_scenarios(names: Sequence[str]) -> list[Scenario]:
    """The scenarios of those names, in order; UsageError naming the nearest and all others."""
    if not names:
        raise UsageError(f"no scenario is named; the scenarios are {', '.join(SCENARIOS)}.")
    for name in names:
        if name not in SCENARIOS:
            near = difflib.get_close_matches(name, SCENARIOS, n=1, cutoff=0.4)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise UsageError(f"there is no scenario '{name}'; {hint}The scenarios are {', '.join(SCENARIOS)}.")
    return [SCENARIOS[name] for name in names]
