"""Exact percentiles of what was measured; nothing is rounded or put in buckets."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Distribution", "describe", "nearest_rank"]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How a measure is distributed, in seconds; ``None`` where nothing was measured."""

    count: int
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None


def nearest_rank(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least ``percent`` % of the (sorted, not empty) values do not exceed."""
    return ordered[max(0, math.ceil(percent * len(ordered) / 100) - 1)]


def describe(values: Collection[float]) -> Distribution:
    """Count, nearest-rank percentiles and maximum."""
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
