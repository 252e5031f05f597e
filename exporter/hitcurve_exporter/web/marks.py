"""Cuts that somebody outside knows of: ``POST /api/v1/marks``."""

import json
import math
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from hitcurve_exporter.configuration.durations import format_duration

__all__ = ["BadMark", "Mark", "parse_mark"]

MarkKind = Literal["reset", "restart", "adapter_load"]

_KEYS: Final = ("target", "engine", "kind", "at_s")
_FURTHEST_S: Final = 3_600.0


class BadMark(ValueError):
    """The request is no mark; the message says what to send."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One cut. At least one of ``target`` and ``engine`` is given."""

    kind: MarkKind
    at_s: float
    target: str | None = None
    engine: str | None = None


def parse_mark(body: bytes, now_s: float) -> Mark:
    """The mark in a JSON body; ``at_s`` is now where it is missing. BadMark where it is none."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadMark('the body is not JSON; send an object such as {"target": …, "kind": "reset"}.') from error
    if not isinstance(values, dict):
        raise BadMark("the body must be one JSON object.")
    unknown = [key for key in values if key not in _KEYS]
    if unknown:
        raise BadMark(f"unknown key '{unknown[0]}'; known keys are {', '.join(_KEYS)}.")
    if values.get("kind") not in get_args(MarkKind):
        raise BadMark(f"'kind' must be one of {', '.join(get_args(MarkKind))}.")
    target, engine = _name(values, "target"), _name(values, "engine")
    if target is None and engine is None:
        raise BadMark("name a 'target' or an 'engine'.")
    return Mark(cast(MarkKind, values["kind"]), _time(values.get("at_s", now_s), now_s), target, engine)


def _name(values: dict[str, object], key: str) -> str | None:
    value = values.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise BadMark(f"'{key}' must be a text.")
    return value


def _time(value: object, now_s: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadMark("'at_s' must be a time in Unix seconds.")
    if abs(value - now_s) > _FURTHEST_S:
        raise BadMark(f"'at_s' must be Unix seconds within {format_duration(_FURTHEST_S)} of now.")
    return float(value)
