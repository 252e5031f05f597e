"""The rules for a single PromQL expression: each function yields what is wrong, in words."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import promql_parser

from hitcurve_dashboards.lint.labels import label_problems
from hitcurve_dashboards.lint.ratios import ratio_problems
from hitcurve_dashboards.lint.tree import Found, metric_names, parsed, selectors, stripped, walked
from hitcurve_dashboards.names import INFO_SERIES, Kind, origin_of, other_spelling

__all__ = ["expression_problems", "spelling_problems"]

RATES = ("rate", "irate", "increase")
COUNTER_FUNCTIONS = (*RATES, "resets", "changes", "absent", "absent_over_time", "timestamp", "count_over_time")
OVER_TIME = ("avg_over_time", "sum_over_time", "min_over_time", "max_over_time", "quantile_over_time")
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


def spelling_problems(tree: Any, known: Known) -> Iterator[str]:
    """vLLM's names of which only one spelling is read."""
    names = {name for found in selectors(tree) for name in metric_names(found.node, known)}
    for name in sorted(names):
        other = other_spelling(name)
        if other not in names:
            yield f"only {name} is read: a scrape may spell it {other}; join both with 'or'"


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
            judged = operation in ("avg", "sum", "quantile") or (operation in ("max", "min") and not grouped)
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
            level = stripped(node.args[0])
            if isinstance(level, promql_parser.NumberLiteral) and not 0 <= level.val <= 1:
                yield f"quantile {level.val:g} is not between 0 and 1"
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
        if found.node.name not in INFO_SERIES:
            continue
        cure = f"{found.node.name} has no label model_name; join it on instance and engine"
        if any(matcher.name == "model_name" for matcher in found.node.matchers.matchers):
            yield cure
        for node in found.above:
            if (
                isinstance(node, promql_parser.BinaryExpr)
                and str(node.op) == "*"
                and not _by_replica(node.modifier)
            ):
                yield cure


def _by_replica(modifier: Any) -> bool:
    """Whether both sides are matched by the labels that tell one engine from another, and by no more."""
    if modifier is None or modifier.matching is None:
        return False
    labels = set(modifier.matching.labels)
    if modifier.matching.type == promql_parser.LabelModifierType.Include:
        return {"instance", "engine"} <= labels and "model_name" not in labels
    return "model_name" in labels and not labels & {"instance", "engine"}


def _idle_stays_without_value(tree: Any, known: Known) -> Iterator[str]:
    for found in walked(tree):
        node = found.node
        if isinstance(node, promql_parser.BinaryExpr) and str(node.op) == "or":
            filler = stripped(node.rhs)
            if isinstance(filler, promql_parser.Call) and filler.func.name == "vector":
                yield "'or vector(…)': no traffic is shown as a number; leave it without value"


def _told_once(tree: Any, known: Known) -> Iterator[str]:
    """The exporter says again what the pages of the engines say."""
    for found in walked(tree):
        node = found.node
        if isinstance(node, promql_parser.BinaryExpr) and str(node.op) == "+":
            origins = {origin_of(name) for one in selectors(node) for name in metric_names(one.node, known)}
            if {"exporter", "page"} <= origins:
                yield "adds the exporter's numbers to the engines' own: both count the same tokens"


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
    _idle_stays_without_value,
    _told_once,
    _ratios,
    label_problems,
)
