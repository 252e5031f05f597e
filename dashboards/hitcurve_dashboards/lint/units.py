"""The rules for units: what an expression measures, as far as the names of its metrics tell."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import promql_parser

from hitcurve_dashboards.lint.tree import metric_names, selectors, stripped
from hitcurve_dashboards.names import Kind

__all__ = ["is_unit", "unit_problems"]

_UNIT = re.compile(r"(short|none|s|ms|bytes|percentunit|(count|suffix|prefix):.+)")
_SHARE = re.compile(r"(hit_rate|usage|sampled|spread)_ratio$|_perc$")
_KEEPS_UNIT = ("sum", "max", "min", "avg", "topk", "bottomk")
_RATES = ("rate", "irate")
_PER_SECOND: Mapping[str, str] = {
    "_tokens_total": "count:tok/s",
    "_blocks_total": "count:blocks/s",
    "_requests_total": "count:req/s",
    "_preemptions_total": "count:/s",
}

Known = Mapping[str, Kind]


def is_unit(text: str) -> bool:
    """Whether Grafana knows the unit; those with a colon carry their own text."""
    return _UNIT.fullmatch(text) is not None


def unit_problems(tree: Any, unit: str, known: Known) -> Iterator[str]:
    """Whether the unit of a panel is that of what it shows."""
    measured = _measured(tree, known)
    if measured is None or unit == measured:
        return
    if not (measured.startswith("count:") and unit.startswith(measured)):
        yield f"unit '{unit}', and the values are of '{measured}'"


def _measured(node: Any, known: Known) -> str | None:
    """The unit, or how one of ``count:`` begins; ``None`` where the names do not tell."""
    inner = stripped(node)
    match inner:
        case promql_parser.AggregateExpr() if str(inner.op) in _KEEPS_UNIT:
            return _measured(inner.expr, known)
        case promql_parser.Call():
            return _of_call(inner, known)
        case promql_parser.VectorSelector():
            return _of_name(inner, known)
        case promql_parser.BinaryExpr():
            return _of_binary(inner, known)
    return None


def _of_call(node: Any, known: Known) -> str | None:
    if node.func.name == "histogram_quantile":
        names = _names(node.args[1], known)
        return "s" if names and all(name.endswith("_seconds_bucket") for name in names) else None
    if node.func.name == "label_replace":
        return _measured(node.args[0], known)
    if node.func.name in _RATES:
        names = _names(node.args[0], known)
        for part, unit in _PER_SECOND.items():
            if names and all(name.endswith(part) for name in names):
                return unit
    return None


def _of_name(node: Any, known: Known) -> str | None:
    names = metric_names(node, known)
    if names and all(_SHARE.search(name) for name in names):
        return "percentunit"
    if names and all(re.search(r"(?<!timestamp)_seconds$", name) for name in names):
        return "s"
    return "count:tok" if names and all(name.endswith("_tokens") for name in names) else None


def _of_binary(node: Any, known: Known) -> str | None:
    operation = str(node.op)
    left, right = _measured(node.lhs, known), _measured(node.rhs, known)
    if operation == "/" and left is not None and right is not None:
        return _divided(left, right)
    if operation in ("or", "-", "+") and left == right:
        return left
    if operation in (">", "<", ">=", "<=", "and", "unless"):
        return left
    return None


def _divided(left: str, right: str) -> str:
    if left == right:
        return "percentunit"
    return "s" if right == f"{left}/s" else left.removesuffix("/s")


def _names(node: Any, known: Known) -> list[str]:
    return [name for found in selectors(node) for name in metric_names(found.node, known)]
