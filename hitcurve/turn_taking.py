"""Whether an address leads to several processes in turn, told by counters alone where no start time tells.

A counter that falls looks like a restart. Behind a load balancer the pair of lookup counters lands where that of
another process was left before, or leaps back to where it fell from. A process that restarts begins near zero and
climbs step by step. Once may be chance; twice within 20 scrapes is not, unless a process lives for two scrapes.
"""

import math
from collections import deque
from typing import Final

from hitcurve.sample import LookupCounters

__all__ = ["TurnTaking", "fell"]

_LEAP: Final = 4.0
"""Times the largest step since the last fall that a leap must exceed."""
_REMEMBERED: Final = 16
_WITHIN_SCRAPES: Final = 20


class TurnTaking:
    """Follows one pair of lookup counters without start times."""

    def __init__(self) -> None:
        self._fell_from: deque[LookupCounters] = deque(maxlen=_REMEMBERED)
        self._rose_from: deque[LookupCounters] = deque(maxlen=_REMEMBERED)
        """Where they were when they rose to where they had fallen from."""
        self._largest_step = math.inf
        """Since the last fall, the step from zero to where they landed included."""
        self._scrapes = 0
        self._taken_at: int | None = None

    def observe(self, last: LookupCounters, now: LookupCounters) -> bool:
        """Whether ``now``, the scrape after ``last``, goes on where another process was left, and so did a scrape
        shortly before."""
        self._scrapes += 1
        if any(fell(last, now)):
            taken = self._take(self._rose_from, now) or self._take(self._fell_from, now)
            self._fell_from.append(last)
            self._largest_step = _tokens(now)
        else:
            step = _tokens(now) - _tokens(last)
            back = self._take(self._fell_from, now, above=last)
            if back:
                self._rose_from.append(last)
            taken = back and step > _LEAP * self._largest_step
            self._largest_step = max(self._largest_step, step)
        if not taken:
            return False
        before, self._taken_at = self._taken_at, self._scrapes
        return before is not None and self._scrapes - before <= _WITHIN_SCRAPES

    def _take(
        self, places: deque[LookupCounters], now: LookupCounters, *, above: LookupCounters | None = None
    ) -> bool:
        """Take out a place that ``now`` may go on from, of those above ``above``."""
        for place in places:
            if _goes_on(place, now) and (above is None or any(fell(place, above))):
                places.remove(place)
                return True
        return False


def fell(last: LookupCounters, now: LookupCounters) -> tuple[bool, bool]:
    """Which of the pair fell, queries and hits, compared in tokens where both units are known."""
    before, after = last.tokens_per_unit or 1, now.tokens_per_unit or 1
    return now.queries * after < last.queries * before, now.hits * after < last.hits * before


def _goes_on(left: LookupCounters, now: LookupCounters) -> bool:
    """Whether the counters may have come from ``left``, and lie nearer to it than to zero."""
    return not any(fell(left, now)) and _tokens(now) <= 2.0 * _tokens(left)


def _tokens(lookups: LookupCounters) -> float:
    return lookups.queries * (lookups.tokens_per_unit or 1)
