"""What people see of a run while it goes on."""

import sys
from typing import Protocol

from rich.console import Console

from hitcurve_chaos.verdict import Verdict

__all__ = ["ConsoleProgress", "Progress", "Silent"]

_COLOURS = {"ok": "green", "bad": "red", "no_data": "yellow", "invalid": "yellow"}


class Progress(Protocol):
    """Told of every step."""

    def step(self, scenario: str, text: str) -> None: ...

    def verdict(self, verdict: Verdict) -> None: ...


class Silent:
    """Says nothing."""

    def step(self, scenario: str, text: str) -> None:
        """Nothing."""

    def verdict(self, verdict: Verdict) -> None:
        """Nothing."""


class ConsoleProgress:
    """One line a step, on stderr."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stderr, highlight=False)

    def step(self, scenario: str, text: str) -> None:
        self._console.print(f"{scenario}: {text}", markup=False, soft_wrap=True)

    def verdict(self, verdict: Verdict) -> None:
        colour = _COLOURS[verdict.verdict]
        self._console.print(f"[{colour}]{verdict.scenario}: {verdict.verdict}[/]", soft_wrap=True)
        for problem in verdict.problems:
            self._console.print(f"  {problem}", markup=False, soft_wrap=True)
