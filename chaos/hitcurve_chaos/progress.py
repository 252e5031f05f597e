"""What people see of a run while it goes on."""

import contextlib
import sys
from typing import Protocol

from rich.console import Console

from hitcurve_chaos.verdict import Verdict

__all__ = ["ConsoleProgress", "Progress", "QuietConsole", "Silent"]

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


class QuietConsole(Console):
    """A console whose reader may go away: Rich would end the program then, in the middle of an undoing."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class ConsoleProgress:
    """One line a step, on stderr; a terminal that was closed is told nothing and stops nothing."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or QuietConsole(file=sys.stderr, highlight=False)

    def step(self, scenario: str, text: str) -> None:
        self._print(f"{scenario}: {text}")

    def verdict(self, verdict: Verdict) -> None:
        colour = _COLOURS[verdict.verdict]
        self._print(f"{verdict.scenario}: {verdict.verdict}", style=colour)
        for problem in verdict.problems:
            self._print(f"  {problem}")

    def _print(self, text: str, style: str | None = None) -> None:
        with contextlib.suppress(OSError):
            self._console.print(text, style=style, markup=False, soft_wrap=True)
