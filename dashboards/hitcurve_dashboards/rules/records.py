"""What a rule file is made of, as plain records."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["DEFAULT", "Alert", "Objective", "Recording", "RuleGroup", "Severity"]

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule; ``record`` is named ``level:metric:operations``.

    ``may_be_empty`` says what is needed for it to record anything, where not every fleet has that.
    """

    record: str
    expr: str
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    ``page`` names the runbook, ``docs/runbooks/PAGE.md``. ``hold`` is the ``for`` of the rule: how long it must be
    true before anybody hears of it.
    """

    name: str
    expr: str
    hold: str
    severity: Severity
    summary: str
    description: str
    page: str


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated together; each group is a file of its own."""

    name: str
    rules: tuple[Recording | Alert, ...]
    interval: str = "30s"


@dataclass(frozen=True, slots=True)
class Objective:
    """The service level of the time to first token: ``target`` of the requests within ``bound`` seconds.

    ``bound`` is a bucket bound of ``vllm:time_to_first_token_seconds`` as the page spells it.
    """

    bound: str = "2.5"
    target: float = 0.99


DEFAULT = Objective()
