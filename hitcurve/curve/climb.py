"""Is the curve climbing, or flat within its own noise? Asked of the evidence since a cut or a turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.noise import Noise

__all__ = ["Climb", "Trend"]

_MOST_BINS = 48
_LEAST_CLIMB = 0.05
_CLIMB_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class Trend:
    """Rise of the rate from one stretch to the next and its standard error."""

    rise: float
    error: float

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
        return any(trend.climbing for trend in (self._trend(self._bins, noise), self._late(noise)) if trend)

    def flat(self, noise: Noise, config: CurveConfig) -> bool:
        """The newest quarter of the evidence does not lie above the quarter before it."""
        trend, whole = self._late(noise), self._trend(self._bins, noise)
        if trend is None or whole is None or self.total.scrapes < config.flat_scrapes:
            return False
        if whole.climbing and self.total.scrapes < config.flat_quiet_scrapes:
            return False
        if max(trend.rise, 0.0) + trend.error <= config.flat_rise:
            return True
        quiet = self.total.effective >= config.flat_requests and self.total.scrapes >= config.flat_quiet_scrapes
        return quiet and trend.rise <= 0.75 * trend.error

    def _late(self, noise: Noise) -> Trend | None:
        return self._trend(_halves(self._bins)[1], noise)

    @staticmethod
    def _trend(bins: Sequence[Sum], noise: Noise) -> Trend | None:
        older, newer = map(_joined, _halves(bins))
        if older.rate is None or newer.rate is None:
            return None
        pooled = _joined(bins).cautious_rate
        variance = sum(noise.variance(pooled, half.requests, half.scrapes) for half in (older, newer))
        return Trend(newer.rate - older.rate, variance**0.5)


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
