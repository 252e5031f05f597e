"""Swings of the rate far beyond noise, again and again: turning points of a zigzag."""

from collections import deque
from dataclasses import dataclass

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.noise import Noise

__all__ = ["Swings"]


@dataclass(frozen=True, slots=True)
class _Point:
    at_s: float
    index: int
    rate: float
    requests: float


class Swings:
    """Counts the turns of the curve. A turn is proven when the rate has left its last extreme far enough."""

    def __init__(self, config: CurveConfig) -> None:
        self._config = config
        self._noise = Noise(config)
        self._learnt = 0
        self._previous: Batch | None = None
        self._bin = Sum()
        self._index = 0
        self._extreme: _Point | None = None
        self._direction = 0
        self._turns: deque[_Point] = deque(maxlen=16)

    def add(self, batch: Batch, effective: float) -> None:
        self._learn(batch)
        self._bin.add(batch, effective)
        if self._bin.effective < self._config.swing_bin_requests:
            return
        rate = self._bin.rate
        assert rate is not None
        point = _Point(batch.to_s, self._index, rate, self._bin.requests)
        self._index += 1
        self._bin = Sum()
        self._move(point)

    def _learn(self, batch: Batch) -> None:
        """Noise between neighbouring scrapes, which slow swings leave small; not learnt from proven swings."""
        before, self._previous = self._previous, batch
        if before is None or self.swinging(batch.to_s):
            return
        self._noise.learn_from_neighbours(before, batch)
        self._learnt += 1

    def _move(self, point: _Point) -> None:
        extreme = self._extreme
        if extreme is None:
            self._extreme = point
            return
        moved = point.rate - extreme.rate
        if moved * self._direction > 0 or (self._direction == 0 and moved == 0):
            self._extreme = point
            return
        if abs(moved) < self._least_swing(extreme, point):
            return
        if self._direction != 0:
            self._turns.append(extreme)
        self._direction = 1 if moved > 0 else -1
        self._extreme = point

    def _least_swing(self, one: _Point, other: _Point) -> float:
        middle = (one.rate + other.rate) / 2
        variance = sum(self._noise.variance(middle, point.requests) for point in (one, other))
        return float(max(self._config.swing_rate, self._config.swing_noises * variance**0.5))

    def turns(self, at_s: float) -> list[float]:
        """Times of the turns within the window."""
        config = self._config
        return [
            turn.at_s
            for turn in self._turns
            if turn.at_s > at_s - config.swing_window_s or turn.index > self._index - config.swing_window_scrapes
        ]

    def swinging(self, at_s: float) -> bool:
        known = self._learnt >= self._config.swing_after_scrapes
        return known and len(self.turns(at_s)) >= self._config.swing_turns

    def clear(self) -> None:
        self._bin = Sum()
        self._extreme = None
        self._direction = 0
        self._turns.clear()
