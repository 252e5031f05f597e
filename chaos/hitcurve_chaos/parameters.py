"""Settings of scenarios: declared with type and default, given as text or values, resolved before a run."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hitcurve.errors import UsageError

__all__ = ["COMMON_PARAMETERS", "Parameter", "Settings", "resolve", "seconds"]

Kind = Literal["duration", "number", "count", "flag"]
Settings = Mapping[str, Any]
"""Resolved parameters of a scenario: float for durations (seconds) and numbers, int for counts, bool for flags."""

_UNITS_S = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MOST: Mapping[Kind, float] = {"duration": 7 * 24 * 3600.0, "number": 1e6, "count": 1e6}
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting: ``default`` is of the resolved type, ``help`` one clause."""

    name: str
    kind: Kind
    default: float | int | bool
    help: str
    least: float = 0.0
    most: float = math.inf
    """``inf``: as much as makes sense for its kind."""


COMMON_PARAMETERS: tuple[Parameter, ...] = (
    Parameter("baseline", "duration", 15.0, "how long the curve must be steady before the fault", least=1),
    Parameter("baseline_within", "duration", 120.0, "give up when it was not steady that long by then", least=1),
    Parameter(
        "hold", "duration", 20.0, "how long the fault lasts, or is watched where it is a single blow", least=1
    ),
    Parameter("recover_within", "duration", 60.0, "the curve must be steady again by then", least=1),
    Parameter("recovered_share", "number", 0.9, "share of the baseline hit rate that counts as recovered", most=1),
    Parameter("fall", "number", 0.05, "how far the rate must fall below the baseline's lowest interval", most=1),
    Parameter(
        "abort_failed_share", "number", 0.5, "end the fault at once when more of the load's requests fail", most=1
    ),
    Parameter("correctness", "flag", True, "compare answers from the cache with computed ones"),
    Parameter("max_lag", "duration", 0.25, "how late the load generator may send (99th percentile)"),
)


def resolve(declared: Sequence[Parameter], given: Mapping[str, object], *, strict: bool = True) -> dict[str, Any]:
    """Defaults overlaid with what was given (text or values); UsageError for unknown names and unfit values.

    Names may be spelled with dashes. With ``strict=False`` names that are not declared are left out.
    """
    known = {parameter.name: parameter for parameter in declared}
    settings: dict[str, Any] = {parameter.name: parameter.default for parameter in declared}
    for spelling, value in given.items():
        name = spelling.replace("-", "_")
        if name not in known:
            if strict:
                raise UsageError(
                    f"there is no scenario parameter '{spelling}'; the parameters are {', '.join(sorted(known))}."
                )
            continue
        settings[name] = _fit(known[name], value)
    return settings


def seconds(text: str) -> float:
    """Seconds of a duration such as ``15``, ``15s``, ``1.5m`` or ``500ms``; ValueError otherwise."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", text)
    if match is None or match[2] not in _UNITS_S:
        raise ValueError(text)
    return float(match[1]) * _UNITS_S[match[2]]


def _fit(parameter: Parameter, value: object) -> float | int | bool:
    try:
        fitting = _convert(parameter.kind, value)
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    else:
        _check_bounds(parameter, value, fitting)
        return fitting
    example = {"duration": "a duration such as 15s", "number": "a number of at least 0", "count": "a whole number"}
    raise UsageError(
        f"the scenario parameter '{parameter.name}' cannot be {value!r}; "
        f"give {example.get(parameter.kind, 'true or false')}."
    )


def _check_bounds(parameter: Parameter, given: object, value: float) -> None:
    if parameter.kind == "flag":
        return
    most = min(parameter.most, _MOST[parameter.kind])
    if parameter.least <= value <= most:
        return
    limit = (
        f"at least {_shown(parameter, parameter.least)}" if value < most else f"at most {_shown(parameter, most)}"
    )
    raise UsageError(f"the scenario parameter '{parameter.name}' cannot be {given!r}; give {limit}.")


def _shown(parameter: Parameter, value: float) -> str:
    if parameter.kind != "duration":
        return f"{value:,.12g}"
    return f"{value / 3600:g}h" if value >= 3600 else f"{value:g}s"


def _convert(kind: Kind, value: object) -> float | int | bool:
    if kind == "flag":
        return value if isinstance(value, bool) else _FLAGS[str(value).lower()]
    if isinstance(value, bool):
        raise ValueError(value)
    if kind == "duration":
        return seconds(f"{value:f}" if isinstance(value, float) else str(value))
    number = float(str(value))
    if not 0 <= number < float("inf") or (kind == "count" and number != int(number)):
        raise ValueError(value)
    return int(number) if kind == "count" else number
