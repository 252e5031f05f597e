"""Whether JSON values are what a dataclass says, told with the way to the value that is not."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["Misfit", "check"]

_NAMES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", NoneType: "null"}


class Misfit(ValueError):
    """A value does not fit; ``way`` leads to it: keys of objects and positions in lists."""

    def __init__(self, way: tuple[str | int, ...], what: str) -> None:
        super().__init__(what)
        self.way = way

    def __str__(self) -> str:
        spelled = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.way)
        return f"{spelled.lstrip('.') or 'it'} {self.args[0]}"


def check(value: object, kind: Any, way: tuple[str | int, ...] = ()) -> None:
    """Raise Misfit unless ``value`` fits ``kind``: a dataclass, a collection, a union or a plain type.

    Unknown keys are let pass, and so are absent fields that have a default. Numbers are finite.
    """
    if is_dataclass(kind):
        _check_object(value, kind, way)
        return
    origin, given = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        _check_union(value, given, way)
    elif origin is Literal:
        if value not in given:
            raise Misfit(way, f"is {value!r}, which is not one of {', '.join(map(str, given))}")
    elif origin is not None and issubclass(origin, Mapping):
        for key, item in _expect(value, dict, "an object", way).items():
            check(item, given[1], (*way, key))
    elif origin is not None and issubclass(origin, Sequence):
        for position, item in enumerate(_expect(value, list, "a list", way)):
            check(item, given[0], (*way, position))
    elif kind is not Any and not _is(value, kind):
        raise Misfit(way, f"is not {_NAMES[kind]}")


def _check_object(value: object, kind: Any, way: tuple[str | int, ...]) -> None:
    members = _expect(value, dict, "an object", way)
    for name, (hint, required) in _members(kind).items():
        if name in members:
            check(members[name], hint, (*way, name))
        elif required:
            raise Misfit(way, f"has no '{name}'")


def _check_union(value: object, kinds: Sequence[Any], way: tuple[str | int, ...]) -> None:
    if value is None and NoneType in kinds:
        return
    others = [kind for kind in kinds if kind is not NoneType]
    if len(others) == 1:
        check(value, others[0], way)
    elif not any(_is(value, kind) for kind in others):
        raise Misfit(way, f"is not {' or '.join(_NAMES[kind] for kind in others)}")


def _is(value: object, kind: type) -> bool:
    if kind not in (int, float):
        return isinstance(value, kind)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and (kind is float or value == int(value))
    except OverflowError:
        return False


def _expect(value: object, kind: type, name: str, way: tuple[str | int, ...]) -> Any:
    if not isinstance(value, kind):
        raise Misfit(way, f"is not {name}")
    return value


@cache
def _members(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Name to type and whether it must be there."""
    hints = get_type_hints(kind)
    return {
        field.name: (hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    }
