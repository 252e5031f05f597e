"""Percentiles: exact ones of a list, and histograms that add up exactly over workers.

A histogram keeps each value to four significant decimal digits, so a percentile is off by at most 0.05 % of
itself, in memory that depends on the spread of the values and not on their number. Adding two histograms gives
what one that had seen all values would be, to the last count.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["Distribution", "Histogram", "describe", "nearest_rank"]


_COUNTED_TOGETHER = 256


@dataclass(frozen=True, slots=True)
class Distribution:
    """How a measure is distributed, in seconds; ``None`` where nothing was measured."""

    count: int
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None


@dataclass(slots=True)
class Histogram:
    """Counts of values in seconds, by their first four digits; the largest is kept as it was."""

    counts: Counter[str] = field(default_factory=Counter)
    largest: float | None = None
    _waiting: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        """Count a value; many are counted together, which takes a third of the time."""
        self._waiting.append(value)
        if len(self._waiting) >= _COUNTED_TOGETHER:
            self._count()

    def merge(self, other: "Histogram") -> None:
        """Add all that the other one has seen."""
        self._count()
        other._count()
        self.counts.update(other.counts)
        known = [value for value in (self.largest, other.largest) if value is not None]
        self.largest = max(known, default=None)

    def describe(self) -> Distribution:
        """Count, nearest-rank percentiles and maximum."""
        self._count()
        total = self.counts.total()
        if not total:
            return Distribution(0)
        ranks = [max(1, math.ceil(percent * total / 100)) for percent in (50, 90, 99)]
        found: list[float] = []
        seen = 0
        for value, count in sorted((float(key), count) for key, count in self.counts.items()):
            seen += count
            while len(found) < len(ranks) and seen >= ranks[len(found)]:
                found.append(value)
        assert self.largest is not None
        p50, p90, p99 = (min(value, self.largest) for value in found)
        return Distribution(total, p50, p90, p99, self.largest)

    @property
    def counted(self) -> int:
        """How many values were added."""
        self._count()
        return self.counts.total()

    def values(self) -> list[tuple[float, int]]:
        """Each value that occurred, to four digits, with its count."""
        self._count()
        return [(float(key), count) for key, count in self.counts.items()]

    def as_json(self) -> dict[str, Any]:
        """All of it in plain values, for another process."""
        self._count()
        return {"counts": dict(self.counts), "largest": self.largest}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(Counter(values["counts"]), values["largest"])

    def _count(self) -> None:
        waiting = self._waiting
        if waiting:
            self.counts.update(map("%.4g".__mod__, waiting))
            largest = max(waiting)
            self.largest = largest if self.largest is None else max(self.largest, largest)
            waiting.clear()


def nearest_rank(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least ``percent`` % of the (sorted, not empty) values do not exceed."""
    return ordered[max(0, math.ceil(percent * len(ordered) / 100) - 1)]


def describe(values: Collection[float]) -> Distribution:
    """Count, nearest-rank percentiles and maximum, all exact."""
    if not values:
        return Distribution(count=0)
    ordered = sorted(values)
    return Distribution(
        count=len(ordered),
        p50=nearest_rank(ordered, 50),
        p90=nearest_rank(ordered, 90),
        p99=nearest_rank(ordered, 99),
        max=ordered[-1],
    )
