"""Is the curve climbing, or flat within its own noise? Asked of the evidence since a cut or a turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.noise import Noise

__all__ = ["Climb", "Trend"]

_MOST_BINS = 48
_LEAST_CLIMB = 0.05
_LEAST_SCRAPES = 4
_CLIMB_ERRORS = 2.0


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

    def whole(self, noise: Noise) -> Trend | None:
        """From the older half of the evidence to the newer one."""
        return self._trend(self._bins, noise)

    def flat(self, noise: Noise, config: CurveConfig) -> bool:
        """The newest quarter of the evidence does not lie above the quarter before it.

        A curve that climbed has to be flat in proportion to what it reached: a straight climb from nothing gains
        two sevenths of its newest quarter's rate from the quarter before, however slow it is.
        """
        trend, whole = self._late(noise), self.whole(noise)
        if trend is None or whole is None or self.total.scrapes < config.flat_scrapes:
            return False
        most = config.flat_rise
        if whole.climbing:
            most = min(most, config.flat_share * trend.reached)
        if max(trend.rise, 0.0) + trend.error <= most:
            return True
        quiet = self.total.effective >= config.flat_requests and self.total.scrapes >= config.flat_quiet_scrapes
        if not quiet or trend.rise > config.flat_errors * trend.error:
            return False
        return not whole.climbing or self._not_straight(whole, trend, noise, config)

    def _not_straight(self, whole: Trend, late: Trend, noise: Noise, config: CurveConfig) -> bool:
        """The last half, or the last three quarters, are flat rather than a straight climb's.

        A straight climb rises by a half (three quarters) of the whole rise there. The log-likelihood ratio of no
        rise against that one decides.
        """
        longer = self._trend(_tail(self._bins, 0.75), noise)
        straight = [(late, 0.5 * whole.rise)] + ([(longer, 0.75 * whole.rise)] if longer else [])
        return any(
            ((trend.rise - rise) ** 2 - max(trend.rise, 0.0) ** 2) / (2 * trend.error**2) >= config.flat_proof
            and trend.rise < rise / 2
            for trend, rise in straight
        )

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


def _tail(bins: Sequence[Sum], share: float) -> Sequence[Sum]:
    """The newest bins that hold at least this share of the requests."""
    left = (1.0 - share) * sum(part.requests for part in bins)
    for index, part in enumerate(bins):
        left -= part.requests
        if left < 0:
            return bins[index:]
    return bins[-1:]


def _joined(bins: Sequence[Sum]) -> Sum:
    total = Sum()
    for part in bins:
        total.merge(part)
    return total
