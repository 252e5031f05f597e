"""Confidence intervals of 95 % for what was measured in pairs."""

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Interval", "bootstrap", "ratio_of_pairs"]

_Block = TypeVar("_Block")

_RESAMPLES = 2000
_T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t of 1 to 30 degrees of freedom, 97.5 %."""
_NORMAL_975 = 1.96


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the 95 % interval around it; ``low`` and ``high`` are ``None`` where there is too little."""

    value: float | None
    low: float | None = None
    high: float | None = None


def ratio_of_pairs(pairs: Sequence[tuple[float, float]]) -> Interval:
    """Second over first: the geometric mean over the pairs, with Student's t on the logarithms.

    Pairs with a value that is not above zero tell no ratio and are left out.
    """
    logs = [math.log(second / first) for first, second in pairs if first > 0 and second > 0]
    if not logs:
        return Interval(None)
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Interval(math.exp(mean))
    freedom = len(logs) - 1
    t = _T_975[freedom - 1] if freedom <= len(_T_975) else _NORMAL_975
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def bootstrap(blocks: Sequence[_Block], estimate: Callable[[Sequence[_Block]], float | None]) -> Interval:
    """The estimate of all blocks, and the 2.5th to 97.5th percentile of it over 2,000 resamples of whole blocks.

    Blocks of consecutive requests keep what depends on the moment together. The same blocks give the same
    interval in every process.
    """
    value = estimate(blocks)
    if value is None or len(blocks) < 2:
        return Interval(value)
    source = random.Random(f"bootstrap {len(blocks)}")
    found = [estimate(source.choices(blocks, k=len(blocks))) for _ in range(_RESAMPLES)]
    known = sorted(one for one in found if one is not None)
    if not known:
        return Interval(value)
    return Interval(value, known[int(0.025 * len(known))], known[min(int(0.975 * len(known)), len(known) - 1)])
