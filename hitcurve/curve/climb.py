"""Is the curve climbing, or flat within its own noise? Asked of the evidence since a cut or a turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from hitcurve.curve.approach import Approaches
from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.noise import Noise

__all__ = ["Climb", "Trend"]

_MOST_BINS = 48
_LEAST_CLIMB = 0.05
_LEAST_SCRAPES = 4
_CLIMB_ERRORS = 2.0
_SHARE_OF_REACHED = 0.25


@dataclass(frozen=True, slots=True)
class Trend:
    """Rise of the rate from one stretch to the next, its standard error, and the rate of the newer stretch."""

    rise: float
    error: float
    reached: float

    @property
    def climbing(self) -> bool:
        return self.rise > max(_LEAST_CLIMB, _CLIMB_ERRORS * self.error)


class Climb:
    """Batches since the last turn, at most 48 sums: neighbours are merged as the stretch grows."""

    def __init__(self) -> None:
        self._bins: list[Sum] = []
        self._width = 1.0
        self.total = Sum()
        self._asked = 0.0

    @property
    def grown(self) -> bool:
        """Whether there is a sixteenth more evidence than when this last was true."""
        if self.total.scrapes < _LEAST_SCRAPES or self.total.requests < self._asked * (1 + 1 / 16):
            return False
        self._asked = self.total.requests
        return True

    def add(self, batch: Batch, effective: float) -> None:
        self.total.add(batch, effective)
        if not self._bins or self._bins[-1].scrapes >= self._width:
            self._bins.append(Sum())
        self._bins[-1].add(batch, effective)
        if len(self._bins) > _MOST_BINS:
            for first, second in zip(self._bins[::2], self._bins[1::2], strict=False):
                first.merge(second)
            self._bins = self._bins[::2]
            self._width *= 2

    def last_half(self) -> Sum:
        """The newer half of the evidence, by requests."""
        return _joined(_halves(self._bins)[1])

    def climbing(self, noise: Noise) -> bool:
        """The newer half lies above the older one beyond noise, or the newest quarter above the one before."""
        if self.total.scrapes < _LEAST_SCRAPES:
            return False
        return any(trend.climbing for trend in (self.whole(noise), self._late(noise)) if trend)

    def climbs_on(self, noise: Noise, config: CurveConfig) -> bool:
        """The curve read flat too early: all of its evidence says that it has a good part still to climb."""
        return Approaches(self._bins, noise).doubt_of_level(config.flat_rise) >= config.climb_doubt

    def misses(self, former: float, rate: float, noise: Noise, config: CurveConfig) -> bool:
        """It is all but sure that the curve, which fell from ``former``, climbs to less than ``rate``."""
        return Approaches(self._bins, noise, former).reaches(rate) <= config.stuck_doubt

    def rises_from_nothing(self, noise: Noise) -> bool:
        """The rate still grows by a good part of itself, however little that is."""
        trend = self.whole(noise)
        return trend is not None and trend.rise > max(
            _SHARE_OF_REACHED * trend.reached, _CLIMB_ERRORS * trend.error
        )

    def whole(self, noise: Noise) -> Trend | None:
        """From the older half of the evidence to the newer one."""
        return self._trend(self._bins, noise)

    def flat(self, noise: Noise, config: CurveConfig, former: float | None) -> bool:
        """Hardly any doubt is left that the curve has reached its level, however slowly it may have climbed.

        ``former`` is the level that it fell from, to which it may climb back.
        """
        if self.total.scrapes < config.flat_scrapes or len(self._bins) < 2:
            return False
        if self.total.effective < config.flat_requests:
            return False
        return Approaches(self._bins, noise, former).doubt_of_level(config.flat_rise) <= config.flat_doubt

    def _late(self, noise: Noise) -> Trend | None:
        return self._trend(_halves(self._bins)[1], noise)

    @staticmethod
    def _trend(bins: Sequence[Sum], noise: Noise) -> Trend | None:
        older, newer = map(_joined, _halves(bins))
        if older.rate is None or newer.rate is None:
            return None
        pooled = _joined(bins).cautious_rate
        variance = sum(noise.variance(pooled, half.requests, half.scrapes) for half in (older, newer))
        return Trend(newer.rate - older.rate, variance**0.5, newer.rate)


def _halves(bins: Sequence[Sum]) -> tuple[Sequence[Sum], Sequence[Sum]]:
    """Split so that both sides hold about half of the requests; the newer side is never empty."""
    left = sum(part.requests for part in bins) / 2
    for index, part in enumerate(bins):
        left -= part.requests
        if left <= 0:
            cut = min(index + 1, len(bins) - 1)
            return bins[:cut], bins[cut:]
    return [], bins


def _joined(bins: Sequence[Sum]) -> Sum:
    total = Sum()
    for part in bins:
        total.merge(part)
    return total
