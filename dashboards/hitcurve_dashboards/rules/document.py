"""Rule groups to Prometheus' YAML; the same records give the same bytes."""

from typing import Any

import yaml

from hitcurve_dashboards.rules.curve_alerts import CURVE_ALERTS
from hitcurve_dashboards.rules.patch_alerts import PATCH_ALERTS
from hitcurve_dashboards.rules.rate_alerts import rate_alerts
from hitcurve_dashboards.rules.recording import recording_groups
from hitcurve_dashboards.rules.records import DEFAULT, Alert, Objective, Recording, RuleGroup
from hitcurve_dashboards.rules.scraping_alerts import SCRAPING_ALERTS

__all__ = ["RUNBOOKS", "as_values", "as_yaml", "rule_groups", "written"]

RUNBOOKS = "docs/runbooks"
"""Where ``runbook_url`` points unless told otherwise: the pages of this repository."""


def rule_groups(objective: Objective = DEFAULT) -> tuple[RuleGroup, ...]:
    """Every group, recording rules first."""
    return (*recording_groups(objective), CURVE_ALERTS, rate_alerts(objective), PATCH_ALERTS, SCRAPING_ALERTS)


def as_yaml(group: RuleGroup, runbooks: str = RUNBOOKS) -> str:
    """The rule file of a group. ``runbooks`` is the address before ``/PAGE.md`` in ``runbook_url``."""
    return written({"groups": [as_values(group, runbooks)]})


def as_values(group: RuleGroup, runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """A group as Prometheus has it."""
    rules = [_recording(rule) if isinstance(rule, Recording) else _alert(rule, runbooks) for rule in group.rules]
    return {"name": group.name, "interval": group.interval, "rules": rules}


def written(document: dict[str, Any]) -> str:
    """A document as YAML, with a word for whoever would edit it."""
    head = "# Written by `hitcurve dashboards build`; change hitcurve_dashboards instead.\n"
    return head + yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True)


def _recording(rule: Recording) -> dict[str, Any]:
    return {"record": rule.record, "expr": rule.expr}


def _alert(rule: Alert, runbooks: str) -> dict[str, Any]:
    return {
        "alert": rule.name,
        "expr": rule.expr,
        "for": rule.hold,
        "labels": {"severity": rule.severity},
        "annotations": {
            "summary": rule.summary,
            "description": rule.description,
            "runbook_url": f"{runbooks.rstrip('/')}/{rule.page}.md",
        },
    }
