"""Proven turns of the curve, falls and recoveries, and whether they go on."""

from collections import deque

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.step import StepTest

__all__ = ["Oscillation"]

_QUIET_GAPS = 2.5
_QUIET_SCRAPES = 8
_MOST = float("inf")


class Oscillation:
    """Notes turns that other tests proved; while the curve oscillates, looks for more of them itself."""

    def __init__(self, config: CurveConfig) -> None:
        self._config = config
        self._turns: deque[tuple[float, int]] = deque(maxlen=16)
        self._direction = 0
        self._index = 0
        self._stretch = Sum()
        self._up = StepTest()
        self._down = StepTest()

    def tick(self) -> None:
        """One more scrape with traffic."""
        self._index += 1

    def note(self, at_s: float, direction: int) -> None:
        """A fall (-1) or a recovery (+1) is proven; the same twice in a row is one turn."""
        if direction != self._direction:
            self._turns.append((at_s, self._index))
            self._direction = direction

    @property
    def first_turn_s(self) -> float | None:
        return self._turns[0][0] if self._turns else None

    def again_and_again(self, at_s: float) -> bool:
        """Enough turns, near enough in time or in scrapes."""
        config = self._config
        return config.swing_turns <= sum(
            turn_s > at_s - config.swing_window_s or index > self._index - config.swing_window_scrapes
            for turn_s, index in self._turns
        )

    def begin(self, turns_s: list[float]) -> None:
        """The curve oscillates from now on; ``turns_s`` are turns that were seen elsewhere."""
        for turn_s in turns_s:
            if not self._turns or turn_s > self._turns[-1][0]:
                self._turns.append((turn_s, self._index))
        self._start_stretch()

    def goes_on(self, batch: Batch, effective: float, step: float, score: float) -> bool:
        """Take in a batch while the curve oscillates; false when no turn came for long."""
        level = self._stretch.rate
        self._stretch.add(batch, effective)
        if level is not None:
            self._up.observe(batch, effective, level, level + step, _MOST)
            self._down.observe(batch, effective, level, level - step, _MOST)
            if max(self._up.score, self._down.score) >= score:
                self.note(batch.to_s, 1 if self._up.score > self._down.score else -1)
                self._turns[-1] = (batch.to_s, self._index)
                self._start_stretch()
        usual = (self._turns[-1][0] - self._turns[0][0]) / max(len(self._turns) - 1, 1)
        quiet_s = batch.to_s - self._turns[-1][0]
        return quiet_s <= _QUIET_GAPS * usual or self._stretch.scrapes <= _QUIET_SCRAPES

    def _start_stretch(self) -> None:
        self._stretch = Sum()
        self._up.clear()
        self._down.clear()

    def clear(self) -> None:
        self._turns.clear()
        self._direction = 0
        self._start_stretch()
