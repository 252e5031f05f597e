"""Swings of the rate far beyond noise, again and again: turns of the curve, each proven by a sequential test.

Since the last turn the rate lies at some level; two tests look for a step up and a step down from it. A proven
step is a turn and begins a new stretch with the evidence of the step. By Lorden's bound a turn happens by
chance once in ``exp(h)`` requests, so ``h`` follows from the requests within the window: several turns there
cannot be chance.
"""

import math
from collections import deque

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.noise import Noise
from hitcurve.curve.step import SHARE_OF_PROOF, StepTest, proves_alone

__all__ = ["Swings"]

_MOST_TURNS = 16
_USUAL_TURNS = 6
_QUIET_GAPS = 3.5
_QUIET_SCRAPES = 8
_FOLLOWED = 3.0


class Swings:
    """Counts the turns of the curve."""

    def __init__(self, config: CurveConfig) -> None:
        self._config = config
        self._noise = Noise(config)
        self._learnt = 0
        self._previous: Batch | None = None
        self._index = 0
        self._stretch = Sum()
        self._pending = Sum()
        self._up = StepTest()
        self._down = StepTest()
        self._turns: deque[tuple[float, int, int]] = deque(maxlen=_MOST_TURNS)
        self._pace = 0.0
        self._calm_s = -math.inf

    def add(self, batch: Batch, requests: float) -> None:
        """Take in a batch; ``requests`` are those it counts for, an unusually large one left out."""
        self._learn(batch)
        self._index += 1
        level = self._stretch.rate
        effective = self._noise.effective(batch.rate if level is None else level, requests)
        self._pace += (effective - self._pace) / min(self._index, self._config.swing_window_scrapes)
        self._pending.add(batch, effective)
        turned = level is not None and self._test(batch, effective, level)
        suspected = self._up.score > 0.0 or self._down.score > 0.0
        if turned or not suspected or self._pending.scrapes > self._config.swing_window_scrapes / 2:
            # What belongs to a step that is not proven yet must not move the level it is held against.
            if not turned:
                self._stretch.merge(self._pending)
            self._pending = Sum()
        elif self._turns:
            self._follow_on(self._turns[-1][2])

    def _follow_on(self, direction: int) -> None:
        """The curve goes on in the direction of its last turn: its level is where it has come to."""
        test = self._up if direction > 0 else self._down
        if test.proof >= _FOLLOWED:
            self._stretch, self._pending = Sum(), Sum()
            self._stretch.merge(test.since)
            self._up.clear()
            self._down.clear()

    def _test(self, batch: Batch, effective: float, level: float) -> bool:
        step = max(self._config.swing_rate, self._config.swing_scatters * self._noise.scatter)
        error = (
            self._noise.variance(self._stretch.cautious_rate, self._stretch.requests, self._stretch.scrapes) ** 0.5
        )
        high, low = level + error, level - error
        most = math.inf if proves_alone(batch) else SHARE_OF_PROOF * self._needed
        self._up.observe(batch, effective, high, high + step, most)
        self._down.observe(batch, effective, low, low - step, most)
        for direction, test in ((1, self._up), (-1, self._down)):
            if test.proof >= self._needed and abs((test.since.rate or 0.0) - level) >= step:
                self._turn(batch, direction, test)
                return True
        return False

    @property
    def _needed(self) -> float:
        """Score at which a turn is proven."""
        within = self._pace * self._config.swing_window_scrapes
        return math.log(max(within, 1.0)) + self._config.swing_score

    def _turn(self, batch: Batch, direction: int, test: StepTest) -> None:
        if self._turns and self._turns[-1][2] == direction:
            self._turns[-1] = (batch.to_s, self._index, direction)
        else:
            self._turns.append((batch.to_s, self._index, direction))
        self._stretch = Sum()
        self._stretch.merge(test.since)
        self._up.clear()
        self._down.clear()

    def _learn(self, batch: Batch) -> None:
        """Noise between neighbouring scrapes, which slow swings leave small; not learnt from proven swings."""
        before, self._previous = self._previous, batch
        if before is None or self.swinging(batch.to_s):
            return
        self._noise.learn_from_neighbours(before, batch)
        self._learnt += 1

    def turns(self, at_s: float) -> list[float]:
        """Times of the turns within the window, from the first fall on: a warm-up is no swing."""
        config = self._config
        found = [
            (turn_s, direction)
            for turn_s, index, direction in self._turns
            if turn_s > at_s - config.swing_window_s or index > self._index - config.swing_window_scrapes
        ]
        while found and found[0][1] > 0:
            del found[0]
        return [turn_s for turn_s, _ in found]

    def swinging(self, at_s: float, needed: int | None = None) -> bool:
        """Whether there were enough turns (``swing_turns`` unless said otherwise) within the window, the last of
        them after the curve was last found calm."""
        if self._learnt < self._config.swing_after_scrapes or not self._turns:
            return False
        turns = self.turns(at_s)
        return len(turns) >= (needed or self._config.swing_turns) and turns[-1] > self._calm_s

    def calm(self, at_s: float) -> None:
        """The curve has stopped swinging; only a new turn can say that it swings again."""
        self._calm_s = at_s

    def go_on(self, at_s: float) -> bool:
        """Whether the curve still swings: its last turn is no longer ago than three and a half usual ones."""
        if not self._turns:
            return False
        turns = list(self._turns)[-_USUAL_TURNS:]
        usual = (turns[-1][0] - turns[0][0]) / max(len(turns) - 1, 1)
        last_s, index, _ = turns[-1]
        return at_s - last_s <= _QUIET_GAPS * usual or self._index - index <= _QUIET_SCRAPES

    def clear(self) -> None:
        self._stretch = Sum()
        self._pending = Sum()
        self._turns.clear()
        self._up.clear()
        self._down.clear()
