"""Tolerances of a scenario's expectations, changed by a suite: ``tolerances: {pool_share_usable: 0.9}``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hitcurve.errors import UsageError
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Between, Expectation, OneOf, Tolerance
from hitcurve_chaos.parameters import Settings
from hitcurve_chaos.scenarios.scenario import Scenario

__all__ = ["with_tolerances"]


def with_tolerances(scenario: Scenario, limits: Mapping[str, object], settings: Settings) -> Scenario:
    """The scenario with other limits: a number, ``[low, high]`` or a list of words, as the tolerance has it.

    UsageError for an expectation that the scenario does not have and for a limit that does not fit its type.
    """
    if not limits:
        return scenario
    known = {expectation.name: expectation for expectation in scenario.expectations(settings)}
    for name, limit in limits.items():
        if name not in known:
            raise UsageError(
                f"'{scenario.name}' has no expectation '{name}' whose tolerance could be set; "
                f"it has {', '.join(known)}."
            )
        _limited(known[name], limit)

    def expectations(resolved: Settings) -> Sequence[Expectation]:
        return [_limited(e, limits[e.name]) if e.name in limits else e for e in scenario.expectations(resolved)]

    return replace(scenario, expectations=expectations)


def _limited(expectation: Expectation, limit: object) -> Expectation:
    return replace(expectation, tolerance=_fit(expectation.name, expectation.tolerance, limit))


def _fit(name: str, tolerance: Tolerance, limit: object) -> Tolerance:
    match tolerance, limit:
        case AtLeast(), int() | float() if not isinstance(limit, bool):
            return AtLeast(float(limit))
        case AtMost(), int() | float() if not isinstance(limit, bool):
            return AtMost(float(limit))
        case Between(), [int() | float() as low, int() | float() as high] if low <= high:
            return Between(float(low), float(high))
        case OneOf(), [*words] if words and all(isinstance(word, str) for word in words):
            return OneOf(tuple(str(word) for word in words))
    example = {"between": "[low, high]", "one_of": "a list of words"}.get(tolerance.kind, "a number")
    raise UsageError(
        f"the tolerance of '{name}' is of type {tolerance.kind} and cannot be {limit!r}; give {example}."
    )
