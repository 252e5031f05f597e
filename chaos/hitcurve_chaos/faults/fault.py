"""What a fault is, and what became of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

__all__ = ["BeforeStep", "Fault", "Injection", "InjectionOutcome", "Undo"]

InjectionOutcome = Literal["applied", "refused", "unsupported", "unverified", "partial", "failed"]
BeforeStep = Callable[[Mapping[str, Any]], None]
"""Journals that a fault goes on, given the particulars of what it does next."""


@dataclass(frozen=True, slots=True)
class Injection:
    """What became of an injection. Only ``applied`` counts as injected."""

    outcome: InjectionOutcome
    sentence: str
    """What happened, for people; of the last answer where there were several."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    at_s: float | None = None
    """When it took effect, Unix seconds, where that is later than the begin of the injection."""

    @property
    def touched(self) -> bool:
        """Whether something may have been changed, so that there is something to undo."""
        return self.outcome not in ("refused", "unsupported")


@dataclass(frozen=True, slots=True)
class Undo:
    """What became of undoing."""

    restored: bool
    sentence: str
    detail: Mapping[str, Any] = field(default_factory=dict)


class Fault(Protocol):
    """One fault of one scenario run.

    ``record`` is journalled before ``inject``. It holds all that another process needs to undo the fault after
    this one died, and no secret. ``undo`` may be called more than once.
    """

    @property
    def trouble(self) -> str | None:
        """What went wrong with it while it lasted, so that it was not the fault that was meant."""

    def record(self) -> dict[str, Any]:
        """JSON values, with the kind of the fault as ``fault``."""

    def inject(self) -> Injection:
        """Begin. Returns what became of it."""

    def tick(self, before_step: BeforeStep) -> None:
        """Take the next step of a fault that acts in steps; called again and again while it lasts.

        ``before_step`` is called before anything more is put on the engine.
        """

    def undo(self) -> Undo:
        """Put things back as they were."""
