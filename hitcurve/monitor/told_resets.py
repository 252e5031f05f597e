"""Resets of one engine, told by marks, by events and by its own counter, each counted once."""

from collections.abc import Sequence
from typing import Final

from hitcurve.reading import Cut

__all__ = ["LATE_COUNTER_S", "SAME_RESET_S", "ToldResets"]

SAME_RESET_S: Final = 5.0
"""Two reports of a reset that lie no further apart are of the same one."""
LATE_COUNTER_S: Final = 15.0
"""So long a counter may be behind a mark. The engine patch's tells within 1.2 s unless it is kept from a core."""


class ToldResets:
    """Takes what is told from scrape to scrape. A counter is exact; marks may come before it or after."""

    def __init__(self) -> None:
        self._last_s: float | None = None
        self._ahead = 0
        """Resets that marks told of and the counter may still."""

    def take(self, marks: Sequence[Cut], counted: int, at_s: float) -> tuple[tuple[Cut, ...], int]:
        """Cuts of the new resets, and their number; ``counted`` ones of the scrape at ``at_s`` (Unix seconds) that
        no mark told share one cut."""
        new = tuple(mark for mark in marks if self._is_new(mark.at_s))
        told = self._ahead + len(new)
        untold = max(counted - told, 0)
        cuts = new
        if untold and not new:
            cuts = (Cut(at_s, "reset"),)
            self._last_s = at_s
        late = self._last_s is None or at_s - self._last_s > LATE_COUNTER_S
        self._ahead = 0 if late else max(told - counted, 0)
        return cuts, len(new) + untold

    def _is_new(self, at_s: float) -> bool:
        if self._last_s is not None and abs(at_s - self._last_s) <= SAME_RESET_S:
            return False
        self._last_s = at_s if self._last_s is None else max(at_s, self._last_s)
        return True
