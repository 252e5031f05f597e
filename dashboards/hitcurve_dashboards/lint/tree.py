"""Walks over PromQL syntax trees."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser

__all__ = ["Found", "children", "metric_names", "metrics_in", "parsed", "selectors", "stripped", "walked"]

_DURATION_VARIABLES = {"$__rate_interval": "5m", "$__interval": "1m", "$__range": "1h"}
_VARIABLE = re.compile("|".join(re.escape(name) for name in _DURATION_VARIABLES))


@dataclass(frozen=True, slots=True)
class Found:
    """A node and those above it, the outermost first."""

    node: Any
    above: tuple[Any, ...]

    def inside_call(self, *names: str) -> bool:
        """Whether one of these functions is applied to it."""
        return any(isinstance(node, promql_parser.Call) and node.func.name in names for node in self.above)


def parsed(expr: str) -> Any:
    """The tree of an expression in which Grafana's variables may stand; ValueError where it is no PromQL."""
    return promql_parser.parse(_VARIABLE.sub(lambda found: _DURATION_VARIABLES[found[0]], expr))


def children(node: Any) -> list[Any]:
    """The nodes directly below."""
    match node:
        case promql_parser.BinaryExpr():
            return [node.lhs, node.rhs]
        case promql_parser.AggregateExpr():
            return [node.expr] if node.param is None else [node.param, node.expr]
        case promql_parser.Call():
            return list(node.args)
        case promql_parser.MatrixSelector():
            return [node.vector_selector]
        case promql_parser.ParenExpr() | promql_parser.SubqueryExpr() | promql_parser.UnaryExpr():
            return [node.expr]
    return []


def walked(node: Any, above: tuple[Any, ...] = ()) -> Iterator[Found]:
    """Every node of the tree."""
    yield Found(node, above)
    for child in children(node):
        yield from walked(child, (*above, node))


def selectors(node: Any) -> Iterator[Found]:
    """Every vector selector of the tree."""
    return (found for found in walked(node) if isinstance(found.node, promql_parser.VectorSelector))


def stripped(node: Any) -> Any:
    """The node without the parentheses around it."""
    while isinstance(node, promql_parser.ParenExpr):
        node = node.expr
    return node


def metric_names(selector: Any, known: Iterable[str]) -> list[str]:
    """The metric a selector names, or every known metric that its matcher on ``__name__`` matches."""
    if selector.name:
        return [selector.name]
    for matcher in selector.matchers.matchers:
        if matcher.name == "__name__":
            if matcher.op == promql_parser.MatchOp.Equal:
                return [matcher.value]
            return [name for name in known if re.fullmatch(matcher.value, name)]
    return []


def metrics_in(expr: str, known: Iterable[str]) -> set[str]:
    """The metrics that an expression asks for; none where it is no PromQL."""
    try:
        found = list(selectors(parsed(expr)))
    except ValueError:
        return set()
    return {name for one in found for name in metric_names(one.node, known)}
