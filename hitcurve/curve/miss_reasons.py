"""Why tokens were missed, where the engine patch tells: what grew since an onset against what was usual."""

from array import array
from typing import Final

from hitcurve.sample import ExplainedLookups

__all__ = ["MISS_REASONS", "MissReasons"]

MISS_REASONS: Final = ("compulsory", "capacity", "reset", "isolated", "tail", "stranded")
"""What each means: docs/miss_reasons.md."""

_TOLD: Final = (*MISS_REASONS, "unknown")
"""As the engine patch counts them: ``unknown`` where it did not know the blocks of a request."""

_KEPT_SCRAPES: Final = 240
_USUAL_SCRAPES: Final = 60.0
_LEAST_GROWTH: Final = 0.05
"""Share of the query tokens that all reasons together must have grown by to say anything."""
_MOST_OF_IT: Final = 0.5
_WIDTH: Final = 2 + len(_TOLD)
"""Of a row: time of the scrape, query tokens since the scrape before, and missed tokens by reason."""


class MissReasons:
    """Keeps the newest scrapes of an engine whose patch explains its misses; empty for every other.

    Rows of numbers in one array: as records they would take six times the memory, and engines are many.
    """

    def __init__(self) -> None:
        self._last: ExplainedLookups | None = None
        self._rows = array("d")
        self._unjudged = 0
        self._usual = array("d")

    def observe(self, at_s: float, told: ExplainedLookups | None) -> None:
        """Take in what one good scrape tells. A reason that its page lacks stands where it stood."""
        last, self._last = self._last, told
        if told is None or last is None:
            return
        if told.queries < last.queries:
            last = ExplainedLookups(0.0, {})
        missed = {**last.missed, **told.missed}
        self._last = ExplainedLookups(told.queries, missed)
        self._rows.extend((at_s, told.queries - last.queries))
        self._rows.extend(max(missed.get(reason, 0.0) - last.missed.get(reason, 0.0), 0.0) for reason in _TOLD)
        if len(self._rows) > _KEPT_SCRAPES * _WIDTH:
            del self._rows[:_WIDTH]
        self._unjudged = min(self._unjudged + 1, _KEPT_SCRAPES)

    def judge(self, healthy: bool, suspected: bool) -> None:
        """Learn what is usual, by the same rule as every other signal."""
        if healthy and not suspected and self._unjudged:
            self._usual = self._usual or array("d", [0.0] * (_WIDTH - 1))
            for start in range(len(self._rows) - self._unjudged * _WIDTH, len(self._rows), _WIDTH):
                for column in range(1, _WIDTH):
                    self._usual[column - 1] *= 1.0 - 1.0 / _USUAL_SCRAPES
                    self._usual[column - 1] += self._rows[start + column]
        if not healthy or not suspected:
            self._unjudged = 0

    def grown(self, from_s: float) -> str | None:
        """The reason that most of the additional misses after ``from_s`` have; ``None`` where none of the known
        ones has."""
        rows, start = self._rows, len(self._rows)
        while start and rows[start - _WIDTH] > from_s:
            start -= _WIDTH
        queries = sum(rows[start + 1 :: _WIDTH])
        if queries <= 0.0:
            return None
        growth = {
            reason: sum(rows[start + column :: _WIDTH]) / queries - self._usual_share(column)
            for column, reason in enumerate(_TOLD, 2)
        }
        total = sum(max(share, 0.0) for share in growth.values())
        reason = max(growth, key=growth.__getitem__)
        names_it = total >= _LEAST_GROWTH and growth[reason] >= _MOST_OF_IT * total
        return reason if names_it and reason in MISS_REASONS else None

    def _usual_share(self, column: int) -> float:
        return self._usual[column - 1] / self._usual[0] if self._usual and self._usual[0] > 0.0 else 0.0
