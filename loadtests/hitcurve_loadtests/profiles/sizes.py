"""From plain values, as a YAML file or the command line gives them, to the sizes of a profile."""

import math
import types
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from hitcurve_loadtests.prompts import MOST_TOKENS
from hitcurve_loadtests.traffic.draws import Length

__all__ = ["BadSize", "as_sizes", "size_names"]

_Sizes = TypeVar("_Sizes")

_MAY_BE_ZERO = ("prefix_tokens", "zipf", "snippets", "snippet_tokens", "warm_up", "shared", "ceiling")


class BadSize(ValueError):
    """A value that a size cannot have; ``name`` is the size's."""

    def __init__(self, name: str, problem: str, cure: str) -> None:
        super().__init__(f"{problem}; {cure}")
        self.name, self.problem, self.cure = name, problem, cure


def size_names(kind: type[Any]) -> tuple[str, ...]:
    """What can be set of a dataclass of sizes."""
    return tuple(field.name for field in fields(kind))


def as_sizes(kind: type[_Sizes], values: Mapping[str, Any]) -> _Sizes:
    """An instance of the dataclass ``kind``; BadSize for an unknown name or a value of the wrong sort."""
    hints = get_type_hints(kind)
    for name in values:
        if name not in hints:
            raise BadSize(name, "is not a size of this profile", f"it has {', '.join(hints)}")
    return kind(**{name: _as(hints[name], name, value) for name, value in values.items()})


def _as(kind: Any, name: str, value: Any) -> Any:
    if kind is Length:
        return _length(name, value)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise BadSize(name, f"is {value!r}", f"give one of {', '.join(get_args(kind))}")
        return value
    if get_origin(kind) is types.UnionType:
        return None if value is None else _as(get_args(kind)[0], name, value)
    return _number(kind, name, value)


def _length(name: str, value: Any) -> Length:
    """``64``, or ``[20, 400]`` for a range."""
    if isinstance(value, Length):
        return value
    if not isinstance(value, list):
        tokens = int(_number(int, name, value))
        return Length(tokens, tokens)
    if len(value) != 2:
        raise BadSize(name, f"is {value!r}", "give one number, or [least, most]")
    least, most = (int(_number(int, name, end)) for end in value)
    if least > most:
        raise BadSize(name, f"is {value!r}", "give the smaller number first")
    return Length(least, most)


def _number(kind: type[float], name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        raise BadSize(name, f"is {value!r}", f"give a {'whole ' if kind is int else ''}number")
    if not math.isfinite(value) or value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
        above = "a number that is not negative" if name in _MAY_BE_ZERO else "a number above zero"
        raise BadSize(name, f"is {value!r}", f"give {above}")
    if value > MOST_TOKENS:
        raise BadSize(name, f"is {value!r}", f"give at most {MOST_TOKENS}")
    return kind(value)
