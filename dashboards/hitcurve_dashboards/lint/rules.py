"""The rules for recording and alerting rules."""

import re
from collections.abc import Iterator, Mapping, Sequence

from hitcurve_dashboards.lint.expressions import expression_problems
from hitcurve_dashboards.names import Kind
from hitcurve_dashboards.rules.records import Alert, Recording, RuleGroup

__all__ = ["recorded_names", "rule_problems"]

_RECORD = re.compile(r"[a-z_]+:[a-z0-9_]+:[a-z0-9_]+")


def recorded_names(groups: Sequence[RuleGroup]) -> list[str]:
    """The names that the recording rules give."""
    return [rule.record for group in groups for rule in group.rules if isinstance(rule, Recording)]


def rule_problems(groups: Sequence[RuleGroup], known: Mapping[str, Kind]) -> list[str]:
    """What is wrong with the rules, each with the name of its rule."""
    problems = [
        f"{rule.record if isinstance(rule, Recording) else rule.name}: {problem}"
        for group in groups
        for rule in group.rules
        for problem in _problems(rule, known)
    ]
    names = [rule.name for group in groups for rule in group.rules if isinstance(rule, Alert)]
    twice = sorted({name for name in (*names, *recorded_names(groups)) if names.count(name) > 1})
    return [*problems, *(f"{name}: more than one rule has this name" for name in twice)]


def _problems(rule: Recording | Alert, known: Mapping[str, Kind]) -> Iterator[str]:
    yield from expression_problems(rule.expr, known)
    if isinstance(rule, Recording):
        if not _RECORD.fullmatch(rule.record):
            yield "not named level:metric:operations"
        if " / " in rule.expr:
            yield "records a ratio: record numerator and denominator apart"
        return
    for name, text in (("summary", rule.summary), ("description", rule.description), ("runbook", rule.page)):
        if not text.strip():
            yield f"no {name}"
    if rule.severity == "critical" and rule.hold == "0m":
        yield "wakes somebody up for a single sample"
