"""Scenarios with their settings, in the order in which they will run."""

from collections.abc import Mapping, Sequence

from hitcurve.errors import UsageError
from hitcurve_chaos.parameters import Settings, resolve
from hitcurve_chaos.scenarios.registry import find_scenarios
from hitcurve_chaos.scenarios.scenario import Scenario

__all__ = ["Planned", "plan"]

Planned = Sequence[tuple[Scenario, Settings]]


def plan(names: Sequence[str], parameters: Mapping[str, object]) -> list[tuple[Scenario, Settings]]:
    """The scenarios of those names with their settings.

    A parameter counts for every scenario that has it; UsageError where none has, or a value does not fit.
    """
    scenarios = find_scenarios(names)
    everything = {p.name: p for scenario in scenarios for p in scenario.all_parameters()}
    resolve(list(everything.values()), parameters)
    planned: list[tuple[Scenario, Settings]] = [
        (scenario, resolve(scenario.all_parameters(), parameters, strict=False)) for scenario in scenarios
    ]
    for _, settings in planned:
        if settings["baseline"] > settings["baseline_within"]:
            raise UsageError(
                f"nothing can be steady for {settings['baseline']:g} s within {settings['baseline_within']:g} s; "
                "raise --baseline-within or lower --baseline."
            )
    return planned
