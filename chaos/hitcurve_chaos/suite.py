"""Suites: scenarios with settings, composed in YAML. Built-in ones lie in ``suites/``."""

import difflib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from hitcurve.errors import UsageError
from hitcurve.yaml_lines import Place, load_yaml
from hitcurve_chaos.parameters import Settings, seconds
from hitcurve_chaos.plan import plan
from hitcurve_chaos.scenarios.registry import SCENARIOS, find_scenarios
from hitcurve_chaos.scenarios.scenario import Scenario
from hitcurve_chaos.tolerances import with_tolerances

__all__ = ["SUITES", "Entry", "Suite", "find_suite", "plan_suite"]

SUITES = ("smoke", "nightly", "soak")
_KEYS = ("title", "order", "repeat_for", "parameters", "scenarios")
_ORDERS = ("listed", "shuffled")


@dataclass(frozen=True, slots=True)
class Entry:
    """A scenario by name, with its own parameters and limits of its expectations."""

    scenario: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    tolerances: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """Scenarios in order, each with what the suite gives it (as text or values)."""

    name: str
    title: str
    scenarios: Sequence["Entry"]
    parameters: Mapping[str, object] = field(default_factory=dict)
    """For every scenario that has them; those of a scenario itself go before."""
    shuffled: bool = False
    repeat_for_s: float | None = None


def find_suite(names: Sequence[str]) -> Suite:
    """The suite that words of a command line mean: a built-in one, a YAML file, or the scenarios of those names.

    UsageError where a name is neither, or a suite is not named alone.
    """
    suites = [name for name in names if name in SUITES or name.endswith((".yaml", ".yml"))]
    if not suites:
        for name in names:
            near = difflib.get_close_matches(name, SUITES, n=1) if name not in SCENARIOS else []
            if near:
                raise UsageError(f"there is no scenario or suite '{name}'; did you mean the suite '{near[0]}'?")
        find_scenarios(names)
        return Suite("scenarios", "Scenarios", [Entry(name) for name in names])
    if len(names) > 1:
        raise UsageError(f"'{suites[0]}' is a suite and stands alone; write a suite of your own to add scenarios.")
    if suites[0] in SUITES:
        with resources.as_file(resources.files("hitcurve_chaos") / "suites" / f"{suites[0]}.yaml") as path:
            return _read(path, suites[0])
    return _read(Path(suites[0]), Path(suites[0]).stem)


def plan_suite(
    suite: Suite, overrides: Mapping[str, object], seed: int, *, shuffled: bool | None = None
) -> list[tuple[Scenario, Settings]]:
    """The scenarios with their settings; ``overrides`` win. UsageError for unknown parameters and unfit values.

    Scenarios under load come first, so that the background load runs once; shuffling leaves that so.
    """
    entries = list(suite.scenarios)
    if suite.shuffled if shuffled is None else shuffled:
        random.Random(f"{seed} order").shuffle(entries)
    entries.sort(key=lambda entry: not SCENARIOS[entry.scenario].under_load)
    plan([entry.scenario for entry in entries], {**suite.parameters, **overrides})
    planned: list[tuple[Scenario, Settings]] = []
    for entry in entries:
        known = {parameter.name for parameter in SCENARIOS[entry.scenario].all_parameters()}
        common = {key: value for key, value in suite.parameters.items() if key.replace("-", "_") in known}
        given = {key: value for key, value in overrides.items() if key.replace("-", "_") in known}
        (one,) = plan([entry.scenario], {**common, **entry.parameters, **given})
        planned.append((with_tolerances(one[0], entry.tolerances, one[1]), one[1]))
    return planned


def _read(path: Path, name: str) -> Suite:
    entries = load_yaml(path, example="chaos/hitcurve_chaos/suites/smoke.yaml").mapping(_KEYS)
    if "scenarios" not in entries:
        raise UsageError(f"{path}:1: there is no 'scenarios' list; see chaos/hitcurve_chaos/suites/smoke.yaml.")
    order = entries["order"].text() if "order" in entries else "listed"
    if order not in _ORDERS:
        entries["order"].wrong(f"is {order!r}", "write listed or shuffled")
    scenarios = [_entry(place) for place in entries["scenarios"].sequence()]
    if not scenarios:
        entries["scenarios"].wrong("is empty", "list at least one scenario")
    parameters = _values(entries["parameters"]) if "parameters" in entries else {}
    suite = Suite(
        name=name,
        title=entries["title"].text() if "title" in entries else name,
        scenarios=scenarios,
        parameters=parameters,
        shuffled=order == "shuffled",
        repeat_for_s=_duration(entries["repeat_for"]) if "repeat_for" in entries else None,
    )
    try:
        plan_suite(suite, {}, 0)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return suite


def _entry(place: Place) -> Entry:
    """A scenario's name, or a mapping of ``scenario``, ``with`` and ``tolerances``."""
    if isinstance(place.value, str):
        name, entry = place, Entry(place.value)
    else:
        entries = place.mapping(("scenario", "with", "tolerances"))
        if "scenario" not in entries:
            place.wrong("names no 'scenario'", "write 'scenario: reset-idle'")
        name = entries["scenario"]
        given = {key: _values(entries[key]) if key in entries else {} for key in ("with", "tolerances")}
        entry = Entry(name.text(), given["with"], given["tolerances"])
    try:
        find_scenarios([name.text()])
    except UsageError as error:
        name.wrong(f"is no scenario ({str(error).rstrip('.')})", "correct it")
    return entry


def _values(place: Place) -> dict[str, object]:
    return {key: entry.value for key, entry in place.mapping(()).items()}


def _duration(place: Place) -> float:
    try:
        return seconds(str(place.value))
    except ValueError:
        place.wrong(f"is {place.value!r}", "give a duration such as 4h")
