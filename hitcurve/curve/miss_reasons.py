"""Why tokens were missed, where the engine patch tells: what grew since an onset against what was usual."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from hitcurve.sample import ExplainedLookups

__all__ = ["MissReasons"]

_KEPT_SCRAPES: Final = 240
_USUAL_SCRAPES: Final = 60.0
_LEAST_GROWTH: Final = 0.05
"""Share of the query tokens that all reasons together must have grown by to say anything."""
_MOST_OF_IT: Final = 0.5

_Row = tuple[float, float, Mapping[str, float]]
"""Time of the scrape, query tokens, and missed tokens by reason since the scrape before."""


class MissReasons:
    """Keeps the newest scrapes of an engine whose patch explains its misses; empty for every other."""

    def __init__(self) -> None:
        self._last: ExplainedLookups | None = None
        self._rows: deque[_Row] = deque(maxlen=_KEPT_SCRAPES)
        self._unjudged = 0
        self._usual_queries = 0.0
        self._usual: dict[str, float] = {}

    def observe(self, at_s: float, told: ExplainedLookups | None) -> None:
        """Take in what one good scrape tells."""
        last, self._last = self._last, told
        if told is None or last is None:
            return
        if told.queries < last.queries:
            last = ExplainedLookups(0.0, {})
        missed = {
            reason: max(tokens - last.missed.get(reason, 0.0), 0.0) for reason, tokens in told.missed.items()
        }
        self._rows.append((at_s, told.queries - last.queries, missed))
        self._unjudged = min(self._unjudged + 1, len(self._rows))

    def judge(self, healthy: bool, suspected: bool) -> None:
        """Learn what is usual, by the same rule as every other signal."""
        if healthy and not suspected:
            for number in range(len(self._rows) - self._unjudged, len(self._rows)):
                self._learn(self._rows[number])
        if not healthy or not suspected:
            self._unjudged = 0

    def _learn(self, row: _Row) -> None:
        keep = 1.0 - 1.0 / _USUAL_SCRAPES
        self._usual_queries = keep * self._usual_queries + row[1]
        for reason in self._usual.keys() | row[2].keys():
            self._usual[reason] = keep * self._usual.get(reason, 0.0) + row[2].get(reason, 0.0)

    def grown(self, from_s: float) -> str | None:
        """The reason that most of the additional misses after ``from_s`` have; ``None`` where none has."""
        queries, missed = _sums(row for row in self._rows if row[0] > from_s)
        if queries <= 0.0:
            return None
        usual = max(self._usual_queries, 1.0)
        growth = {
            reason: tokens / queries - self._usual.get(reason, 0.0) / usual for reason, tokens in missed.items()
        }
        total = sum(max(share, 0.0) for share in growth.values())
        reason = max(growth, key=growth.__getitem__, default=None)
        if reason is None or total < _LEAST_GROWTH or growth[reason] < _MOST_OF_IT * total:
            return None
        return reason


def _sums(rows: Iterable[_Row]) -> tuple[float, dict[str, float]]:
    queries, missed = 0.0, dict[str, float]()
    for _, tokens, by_reason in rows:
        queries += tokens
        for reason, count in by_reason.items():
            missed[reason] = missed.get(reason, 0.0) + count
    return queries, missed
