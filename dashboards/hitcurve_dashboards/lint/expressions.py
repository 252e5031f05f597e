"""The rules for a single PromQL expression: each function yields what is wrong, in words."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import promql_parser

from hitcurve_dashboards.lint.ratios import ratio_problems
from hitcurve_dashboards.lint.tree import Found, parsed, selectors, stripped, walked
from hitcurve_dashboards.names import INFO_SERIES, Kind

__all__ = ["expression_problems", "metric_names"]

RATES = ("rate", "irate", "increase")
COUNTER_FUNCTIONS = (*RATES, "resets", "changes", "absent", "absent_over_time", "timestamp", "count_over_time")
OVER_TIME = ("avg_over_time", "min_over_time", "max_over_time", "quantile_over_time")
_INTERVAL = re.compile(r"\[\s*\$__interval")
_RATIO_NAME = re.compile(r"(_ratio|_perc|:ratio_.*|cache_hit_rate)$")

Known = Mapping[str, Kind]
Rule = Callable[[Any, Known], Iterator[str]]


def expression_problems(expr: str, known: Known) -> list[str]:
    """What is wrong with an expression; ``known`` are all metric names with their kinds."""
    if _INTERVAL.search(expr):
        return ["$__interval as a range: it may be shorter than two scrapes; use $__rate_interval"]
    try:
        tree = parsed(expr)
    except ValueError as error:
        return [f"no PromQL: {error}"]
    return [problem for rule in _RULES for problem in rule(tree, known)]


def metric_names(selector: Any, known: Known) -> list[str]:
    """The metric a selector names, or every known metric that its matcher on ``__name__`` matches."""
    if selector.name:
        return [selector.name]
    for matcher in selector.matchers.matchers:
        if matcher.name == "__name__":
            if matcher.op == promql_parser.MatchOp.Equal:
                return [matcher.value]
            return [name for name in known if re.fullmatch(matcher.value, name)]
    return []


def _names_exist(tree: Any, known: Known) -> Iterator[str]:
    for found in selectors(tree):
        names = metric_names(found.node, known)
        if not names:
            yield f"no known metric matches {found.node}"
        for name in names:
            if name not in known:
                yield f"metric {name} does not exist in the catalogue, on an engine's page or in a recording rule"


def _counters_are_rated(tree: Any, known: Known) -> Iterator[str]:
    for found in selectors(tree):
        for name in metric_names(found.node, known):
            kind = known.get(name)
            if kind == "counter" and not found.inside_call(*COUNTER_FUNCTIONS):
                yield f"counter {name} without rate or increase shows the time since start, not now"
            if kind == "gauge" and found.inside_call(*RATES):
                yield f"rate of {name}, which is a gauge"
            if kind == "recorded" and found.inside_call(*RATES):
                yield f"rate of {name}, which is recorded and no counter"


def _rates_come_first(tree: Any, known: Known) -> Iterator[str]:
    for found in walked(tree):
        node = found.node
        if not isinstance(node, promql_parser.Call) or node.func.name not in RATES:
            continue
        inner = stripped(node.args[0])
        if isinstance(inner, promql_parser.SubqueryExpr) and _holds(inner, promql_parser.AggregateExpr):
            yield f"{node.func.name} of a sum: the restart of one replica is booked as a fall; sum the rates"


def _no_mean_of_ratios(tree: Any, known: Known) -> Iterator[str]:
    for found in walked(tree):
        node = found.node
        if isinstance(node, promql_parser.AggregateExpr):
            operation = str(node.op)
            grouped = node.modifier is not None and bool(node.modifier.labels)
            judged = operation == "avg" or (operation in ("max", "min") and not grouped)
            if judged and _is_ratio(node.expr, known):
                yield f"{operation} of ratios: one with little traffic weighs as much; divide sums instead"
        if isinstance(node, promql_parser.Call) and node.func.name in OVER_TIME and _is_ratio(node.args[0], known):
            yield f"{node.func.name} of a ratio: weighs quiet times like busy ones; divide sums over time instead"


def _is_ratio(node: Any, known: Known) -> bool:
    """Whether a hit rate (or another ratio) is aggregated as such."""
    inner = stripped(node)
    if isinstance(inner, promql_parser.BinaryExpr) and str(inner.op) == "/":
        return not isinstance(stripped(inner.rhs), promql_parser.NumberLiteral)
    if isinstance(inner, promql_parser.MatrixSelector):
        inner = inner.vector_selector
    if isinstance(inner, promql_parser.SubqueryExpr):
        return _is_ratio(inner.expr, known)
    if isinstance(inner, promql_parser.VectorSelector):
        return any(_RATIO_NAME.search(name) and "usage" not in name for name in metric_names(inner, known))
    return False


def _quantiles_keep_le(tree: Any, known: Known) -> Iterator[str]:
    for found in walked(tree):
        node = found.node
        if isinstance(node, promql_parser.Call) and node.func.name == "histogram_quantile":
            inner = stripped(node.args[1])
            if isinstance(inner, promql_parser.AggregateExpr) and not _keeps(inner, "le"):
                yield "histogram_quantile of buckets summed without 'le'"


def _keeps(aggregate: Any, label: str) -> bool:
    if aggregate.modifier is None:
        return False
    listed = label in aggregate.modifier.labels
    return bool(listed == (aggregate.modifier.type == promql_parser.AggModifierType.By))


def _info_series_are_joined(tree: Any, known: Known) -> Iterator[str]:
    for found in selectors(tree):
        if found.node.name in INFO_SERIES:
            for matcher in found.node.matchers.matchers:
                if matcher.name == "model_name":
                    yield f"{found.node.name} has no label model_name; join it on instance and engine"


def _ratios(tree: Any, known: Known) -> Iterator[str]:
    for found in walked(tree):
        if isinstance(found.node, promql_parser.BinaryExpr) and str(found.node.op) == "/":
            yield from ratio_problems(found.node)


def _holds(node: Any, kind: type) -> bool:
    below: Iterator[Found] = walked(node)
    return any(isinstance(found.node, kind) for found in below)


_RULES: tuple[Rule, ...] = (
    _names_exist,
    _counters_are_rated,
    _rates_come_first,
    _no_mean_of_ratios,
    _quantiles_keep_le,
    _info_series_are_joined,
    _ratios,
)
