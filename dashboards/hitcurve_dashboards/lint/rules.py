"""The rules for recording and alerting rules."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import promql_parser

from hitcurve_dashboards.lint.expressions import expression_problems, spelling_problems
from hitcurve_dashboards.lint.labels import result_labels
from hitcurve_dashboards.lint.tree import parsed, walked
from hitcurve_dashboards.names import LEVELS, Kind
from hitcurve_dashboards.rules.records import Alert, Recording, RuleGroup, Severity

__all__ = ["recorded_names", "rule_problems"]

_RECORD = re.compile(r"(?P<level>[a-z_]+):[a-z0-9_]+:(?P<operation>[a-z_]+?)(?P<window>\d+[smhdw])?")
_NAME = re.compile(r"([A-Z][a-z0-9]+)+")
_DURATION = re.compile(r"(?P<number>\d+)(ms|s|m|h|d|w|y)")
_LABEL = re.compile(r"\$labels\.(\w+)")
_COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")

Known = Mapping[str, Kind]


def recorded_names(groups: Sequence[RuleGroup]) -> list[str]:
    """The names that the recording rules give."""
    return [rule.record for group in groups for rule in group.rules if isinstance(rule, Recording)]


def rule_problems(groups: Sequence[RuleGroup], known: Known) -> list[str]:
    """What is wrong with the rules, each with the name of its rule."""
    problems = [
        f"{rule.record if isinstance(rule, Recording) else rule.name}: {problem}"
        for group in groups
        for rule in group.rules
        for problem in _problems(rule, known)
    ]
    problems += [
        f"{group.name}: interval {group.interval} is no duration of Prometheus', such as 30s"
        for group in groups
        if not _DURATION.fullmatch(group.interval)
    ]
    names = [rule.name for group in groups for rule in group.rules if isinstance(rule, Alert)]
    names += [*recorded_names(groups), *(group.name for group in groups)]
    twice = sorted({name for name in names if names.count(name) > 1})
    return [*problems, *(f"{name}: more than one has this name" for name in twice)]


def _problems(rule: Recording | Alert, known: Known) -> Iterator[str]:
    if "$__" in rule.expr:
        yield "a variable of Grafana's: Prometheus knows none"
        return
    problems = expression_problems(rule.expr, known)
    yield from problems
    if any(problem.startswith("no PromQL") for problem in problems):
        return
    tree = parsed(rule.expr)
    yield from spelling_problems(tree, known)
    if isinstance(rule, Recording):
        yield from _recording(rule, tree, known)
    else:
        yield from _alert(rule, tree, known)


def _recording(rule: Recording, tree: Any, known: Known) -> Iterator[str]:
    named = _RECORD.fullmatch(rule.record)
    if named is None:
        yield "not named level:metric:operations"
        return
    if any(isinstance(one.node, promql_parser.BinaryExpr) and str(one.node.op) == "/" for one in walked(tree)):
        yield "records a ratio: record numerator and denominator apart"
    level = LEVELS.get(named["level"])
    labels = result_labels(tree, known)
    if level is None:
        yield f"level {named['level']} is none of {', '.join(LEVELS)}"
    elif labels is not None and labels != level:
        yield f"level {named['level']} stands for the labels {', '.join(sorted(level))}; it has others"
    ranges = re.findall(r"\[(\w+)\]", rule.expr)
    if named["window"] and any(one != named["window"] for one in ranges):
        yield f"named for {named['window']}, and reads another range"


def _alert(rule: Alert, tree: Any, known: Known) -> Iterator[str]:
    if not _NAME.fullmatch(rule.name):
        yield "not named InThisWay"
    for name, text in (("summary", rule.summary), ("description", rule.description), ("runbook", rule.page)):
        if not text.strip():
            yield f"no {name}"
    if rule.severity not in get_args(Severity):
        yield f"severity {rule.severity} is none of {', '.join(get_args(Severity))}"
    hold = _DURATION.fullmatch(rule.hold)
    if hold is None:
        yield f"'for: {rule.hold}' is no duration of Prometheus', such as 5m"
    elif rule.severity == "critical" and not int(hold["number"]):
        yield "wakes somebody up for a single sample"
    if not any(_judges(one.node) for one in walked(tree)):
        yield "compares nothing: it fires as soon as there is a series"
    labels = result_labels(tree, known)
    for label in sorted(set(_LABEL.findall(rule.summary + rule.description))):
        if labels is not None and label not in labels:
            yield f"its text shows the label {label}, which the alert has not"


def _judges(node: Any) -> bool:
    if isinstance(node, promql_parser.Call):
        return bool(node.func.name.startswith("absent"))
    return isinstance(node, promql_parser.BinaryExpr) and str(node.op) in _COMPARISONS
