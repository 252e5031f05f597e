"""The rules for a division: same series on both sides, hits on top, no value without traffic."""

from collections.abc import Iterator
from typing import Any

import promql_parser

from hitcurve_dashboards.lint.tree import selectors, stripped, walked

__all__ = ["ratio_problems"]

_EPSILON = 1e-3
_HIT_WORDS, _QUERY_WORDS = ("hits", "hit_tokens"), ("queries", "query_tokens")
_PER_BUCKET = ("le", "__name__")


def ratio_problems(division: Any) -> Iterator[str]:
    """What is wrong with a division of two vectors; nothing where one side is a number."""
    top, bottom = division.lhs, division.rhs
    if not list(selectors(top)) or not list(selectors(bottom)):
        return
    yield from _zero_guard(bottom)
    if _matchers(top) != _matchers(bottom):
        yield f"label on one side only: {_differing(top, bottom)}; both sides must select the same series"
    if division.modifier is None or division.modifier.matching is None:
        yield from _same_grouping(top, bottom)
    yield from _same_time(top, bottom)
    if {str(one.node) for one in selectors(top)} == {str(one.node) for one in selectors(bottom)}:
        yield "numerator and denominator are the same series"
    if _names_any(top, _QUERY_WORDS) and not _names_any(top, _HIT_WORDS) and _names_any(bottom, _HIT_WORDS):
        yield "ratio upside down: hits belong on top"


def _zero_guard(bottom: Any) -> Iterator[str]:
    for found in walked(bottom):
        node = found.node
        if isinstance(node, promql_parser.NumberLiteral) and 0 < abs(node.val) < _EPSILON:
            yield f"epsilon denominator ({node.val:g}): it turns idle into a rate of 0; write '> 0' instead"
            return
        if isinstance(node, promql_parser.Call) and node.func.name in ("clamp_min", "vector"):
            yield f"{node.func.name} in the denominator: it turns idle into a rate; write '> 0' instead"
            return
        added = _number(node.rhs) if isinstance(node, promql_parser.BinaryExpr) and str(node.op) == "+" else None
        if added is not None and abs(added) >= _EPSILON:
            yield "a number is added to the denominator: it turns idle into a rate of 0; write '> 0' instead"
            return
    inner = stripped(bottom)
    guard = isinstance(inner, promql_parser.BinaryExpr) and str(inner.op) == ">"
    bound = _number(inner.rhs) if guard else None
    if guard and inner.modifier is not None and inner.modifier.return_bool:
        yield "'> bool' in the denominator divides by 0 or 1; write '> 0'"
    elif bound is None or bound < 0:
        yield "denominator without '> 0': no traffic shows as NaN"


def _number(node: Any) -> float | None:
    inner = stripped(node)
    return float(inner.val) if isinstance(inner, promql_parser.NumberLiteral) else None


def _same_time(top: Any, bottom: Any) -> Iterator[str]:
    above, below = _ranges(top), _ranges(bottom)
    if (above and below and above != below) or _offsets(top) != _offsets(bottom):
        yield "numerator and denominator are of different times: give both the same function, range and offset"


def _ranges(side: Any) -> frozenset[str]:
    """Functions and range of every selector that has one."""
    found = set()
    for one in selectors(side):
        ranges = [str(node.range) for node in one.above if hasattr(node, "range")]
        calls = [node.func.name for node in one.above if isinstance(node, promql_parser.Call)]
        if ranges:
            found.add(" ".join((*calls, *ranges)))
    return frozenset(found)


def _offsets(side: Any) -> frozenset[str]:
    return frozenset(str(one.node.offset) for one in selectors(side))


def _matchers(side: Any) -> frozenset[tuple[str, str, str]]:
    return frozenset(
        (matcher.name, str(matcher.op), matcher.value)
        for found in selectors(side)
        for matcher in found.node.matchers.matchers
        if matcher.name not in _PER_BUCKET
    )


def _differing(top: Any, bottom: Any) -> str:
    return ", ".join(sorted({name for name, _, _ in _matchers(top) ^ _matchers(bottom)}))


def _same_grouping(top: Any, bottom: Any) -> Iterator[str]:
    groupings = [_grouping(side) for side in (top, bottom)]
    if None not in groupings and groupings[0] != groupings[1]:
        yield "numerator and denominator are summed by different labels"


def _grouping(side: Any) -> tuple[str, frozenset[str]] | None:
    """How the outermost aggregation of a side groups; ``None`` where there is none."""
    for found in walked(side):
        if isinstance(found.node, promql_parser.AggregateExpr):
            modifier = found.node.modifier
            return ("by", frozenset()) if modifier is None else (str(modifier.type), frozenset(modifier.labels))
    return None


def _names_any(side: Any, words: tuple[str, ...]) -> bool:
    return any(word in (found.node.name or "") for found in selectors(side) for word in words)
