"""A drill: a fault that is made, watched and measured in one go, by requests of the scenario's own.

What it measures is in ``numbers``; where it leaves something behind, ``record`` tells another process how to put
it back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hitcurve_chaos.drivers.driver import DriverFailed
from hitcurve_chaos.faults.fault import BeforeStep, Injection, Undo
from hitcurve_chaos.verdict import Number

__all__ = ["NOTHING_LEFT", "Drill", "Numbers"]

Numbers = dict[str, Number]
NOTHING_LEFT: Mapping[str, Any] = {"fault": "requests"}
"""The record of a drill that leaves nothing behind."""


def _nothing() -> Undo:
    return Undo(True, "nothing remains of it on the engine")


@dataclass(slots=True)
class Drill:
    """``act`` fills ``numbers`` and says what became of it; ``put_back`` undoes it and may be called twice."""

    act: Callable[[Numbers], Injection]
    left: Mapping[str, Any] = field(default_factory=lambda: NOTHING_LEFT)
    put_back: Callable[[], Undo] = _nothing
    numbers: Numbers = field(default_factory=dict)

    @property
    def trouble(self) -> str | None:
        """What goes wrong in a drill is in its numbers or ends it."""
        return None

    def record(self) -> dict[str, Any]:
        return dict(self.left)

    def inject(self) -> Injection:
        try:
            return self.act(self.numbers)
        except DriverFailed as error:
            return Injection("failed", str(error))

    def tick(self, before_step: BeforeStep) -> None:
        """A drill has no steps."""

    def undo(self) -> Undo:
        try:
            return self.put_back()
        except DriverFailed as error:
            return Undo(False, str(error))
