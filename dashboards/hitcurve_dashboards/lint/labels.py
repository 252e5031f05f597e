"""The rules for labels: which a series has, which an expression keeps, and what names one that is not there.

A label that no series has is no error to Prometheus: ``sum by (replica)`` quietly adds everything up, and a
selector of ``reason`` quietly selects nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import promql_parser

from hitcurve.reading import CAUSES, STATES
from hitcurve_dashboards.lint.tree import metric_names, selectors, stripped, walked
from hitcurve_dashboards.names import FIRST_TOKEN_BOUNDS, MISS_REASONS, Kind, labels_of, other_spelling

__all__ = ["label_problems", "result_labels"]

Labels = frozenset[str] | None
"""``None`` where nobody can tell."""

_FIRST_TOKEN = "vllm:time_to_first_token_seconds_bucket"
_MISSES = "hitcurve_engine_miss_tokens_total"
_VALUES: Mapping[tuple[str, str], frozenset[str]] = {
    ("hitcurve_curve_state", "state"): frozenset(STATES),
    ("hitcurve_fleet_engine_states", "state"): frozenset(STATES),
    ("hitcurve_curve_cause", "cause"): frozenset(CAUSES),
    (_MISSES, "reason"): frozenset(MISS_REASONS),
    (_FIRST_TOKEN, "le"): frozenset({*map(repr, FIRST_TOKEN_BOUNDS), "+Inf"}),
    (other_spelling(_FIRST_TOKEN), "le"): frozenset({*map(repr, FIRST_TOKEN_BOUNDS), "+Inf"}),
}
_WORDS = re.compile(r"[\w.+]+(\|[\w.+]+)*")
_KEEP_ALL = ("topk", "bottomk", "limitk", "limit_ratio")


def label_problems(tree: Any, known: Mapping[str, Kind]) -> Iterator[str]:
    """Labels, and values of labels, that the series of an expression do not have."""
    for found in selectors(tree):
        yield from _matched(found.node, known)
    for found in walked(tree):
        if isinstance(found.node, promql_parser.AggregateExpr) and found.node.modifier is not None:
            below = result_labels(found.node.expr, known)
            for label in found.node.modifier.labels:
                if below is not None and label not in below:
                    yield f"grouped by {label}, a label that none of these series has"
        if isinstance(found.node, promql_parser.BinaryExpr):
            yield from _matching(found.node, known)


def result_labels(node: Any, known: Mapping[str, Kind]) -> Labels:
    """The labels that the series of an expression may have."""
    inner = stripped(node)
    reader = _READERS.get(type(inner))
    return frozenset() if reader is None else reader(inner, known)


def _matched(selector: Any, known: Mapping[str, Kind]) -> Iterator[str]:
    names = metric_names(selector, known)
    for matcher in selector.matchers.matchers:
        if matcher.name == "__name__":
            continue
        for name in names:
            labels = labels_of(name)
            if labels is not None and matcher.name not in labels:
                yield f"{name} has no label {matcher.name}"
            values = _VALUES.get((name, matcher.name))
            if values is not None and _WORDS.fullmatch(matcher.value):
                for value in sorted(set(matcher.value.split("|")) - values):
                    yield f"{name} knows no {matcher.name} '{value}'"


def _matching(node: Any, known: Mapping[str, Kind]) -> Iterator[str]:
    """Two sides are matched by labels that both have, and take over labels that the other one has."""
    modifier = node.modifier
    if modifier is None or modifier.matching is None:
        return
    left, right = result_labels(node.lhs, known), result_labels(node.rhs, known)
    if modifier.matching.type == promql_parser.LabelModifierType.Include:
        for label in modifier.matching.labels:
            if any(side is not None and label not in side for side in (left, right)):
                yield f"matched on {label}, a label that one side has not"
    one = left if modifier.card == promql_parser.VectorMatchCardinality.OneToMany else right
    for label in modifier.group_labels or ():
        if one is not None and label not in one:
            yield f"takes over {label}, a label that the other side has not"


def _of_selector(node: Any, known: Mapping[str, Kind]) -> Labels:
    together: frozenset[str] = frozenset()
    for name in metric_names(node, known):
        labels = labels_of(name)
        if labels is None:
            return None
        together |= labels
    return together


def _of_matrix(node: Any, known: Mapping[str, Kind]) -> Labels:
    return result_labels(node.vector_selector, known)


def _of_one(node: Any, known: Mapping[str, Kind]) -> Labels:
    return result_labels(node.expr, known)


def _of_call(node: Any, known: Mapping[str, Kind]) -> Labels:
    if node.func.name.startswith("absent"):
        return None
    vectors = [labels for labels in (result_labels(one, known) for one in node.args) if labels != frozenset()]
    labels = vectors[-1] if vectors else frozenset()
    if labels is not None and node.func.name in ("label_replace", "label_join"):
        return labels | {node.args[1].val}
    if labels is not None and node.func.name == "histogram_quantile":
        return labels - {"le"}
    return labels


def _of_aggregate(node: Any, known: Mapping[str, Kind]) -> Labels:
    below = result_labels(node.expr, known)
    if str(node.op) in _KEEP_ALL:
        return below
    listed = frozenset() if node.modifier is None else frozenset(node.modifier.labels)
    if node.modifier is None or node.modifier.type == promql_parser.AggModifierType.By:
        return listed
    return None if below is None else below - listed


def _of_binary(node: Any, known: Mapping[str, Kind]) -> Labels:
    left, right = result_labels(node.lhs, known), result_labels(node.rhs, known)
    if not list(selectors(node.rhs)):
        return left
    if not list(selectors(node.lhs)):
        return right
    if str(node.op) == "or":
        return None if left is None or right is None else left | right
    if str(node.op) in ("and", "unless"):
        return left
    return _joined(node.modifier, left, right)


def _joined(modifier: Any, left: Labels, right: Labels) -> Labels:
    """What is left of both sides of an arithmetic or a comparison, as Prometheus keeps it."""
    if modifier is None or modifier.matching is None:
        return left
    listed = frozenset(modifier.matching.labels)
    if modifier.card == promql_parser.VectorMatchCardinality.OneToOne:
        if modifier.matching.type == promql_parser.LabelModifierType.Include:
            return listed
        return None if left is None else left - listed
    many = left if modifier.card == promql_parser.VectorMatchCardinality.ManyToOne else right
    return None if many is None else many | frozenset(modifier.group_labels or ())


_READERS: Mapping[type, Callable[[Any, Mapping[str, Kind]], Labels]] = {
    promql_parser.VectorSelector: _of_selector,
    promql_parser.MatrixSelector: _of_matrix,
    promql_parser.SubqueryExpr: _of_one,
    promql_parser.UnaryExpr: _of_one,
    promql_parser.Call: _of_call,
    promql_parser.AggregateExpr: _of_aggregate,
    promql_parser.BinaryExpr: _of_binary,
}
