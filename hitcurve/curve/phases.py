"""The states that traffic proves, and what leads from one to the next.

``no_traffic`` and ``stalled`` lie over these and are decided by the classifier itself.
"""

import math
from collections.abc import Callable
from typing import Literal

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.causes import Signals
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.step import StepTest
from hitcurve.curve.track import Track
from hitcurve.reading import Cause

__all__ = ["Phase", "Phases"]

Phase = Literal["cold", "warming", "steady", "low", "degraded", "collapsed", "oscillating"]

_FEW_REQUESTS = 8.0
_RECOVERY_SCORE = math.log(1000.0)
_LEAST_WARM_RATE = 0.15
_RESET_SCRAPES = 2
_RISE_SCRAPES = 3
_BURST_COLLAPSE_SHARE = 0.1


class Phases:
    """Follows the phase of one curve, batch by batch."""

    def __init__(self, config: CurveConfig, track: Track, signals: Signals) -> None:
        self._config = config
        self._track = track
        self._signals = signals
        self.phase: Phase = "cold"
        self.cause: Cause | None = None
        self.onset_s = 0.0
        """Where the present phase began on the curve; the scrape that proved it came later."""
        self.former: float | None = None
        """The level before the fall."""
        self._comparable = False
        """Whether ``former`` belongs to this epoch, so that the curve may be held against it."""
        self._run = Sum()
        self._recovery = StepTest()
        self._reset_scrapes = 0
        self._entered_s = 0.0
        self._epoch = Sum()
        self._returning = Sum()
        self._return_open = False
        self._steps: dict[Phase, Callable[[Batch, float], None]] = {
            "cold": self._from_cold,
            "warming": self._from_warming,
            "steady": self._from_steady,
            "low": self._from_low,
            "degraded": self._from_degraded,
            "collapsed": self._from_collapsed,
            "oscillating": self._from_oscillating,
        }

    def restart(self, at_s: float, cause: Cause | None) -> None:
        """The engine (re)started: everything is new."""
        self.former = self._held_level()
        self._new_epoch()
        self._reset_scrapes = 0
        self._enter("cold", cause, at_s, at_s)

    def reset(self, at_s: float, traffic: bool) -> None:
        """The cache was cleared. Under traffic from a warm level the next scrapes tell whether it was a fall."""
        level = self._held_level()
        warm = level is not None and level > self._config.low_rate
        self.former = level
        cold = self.phase == "cold"
        self._new_epoch()
        self._reset_scrapes = _RESET_SCRAPES if warm and traffic else 0
        self._enter("cold" if cold else "warming", "reset", at_s, at_s)

    def after_idle(self) -> None:
        """Traffic returns after a long silence: what is new since then must miss first."""
        self._return_open = True
        self._returning = Sum()
        self._track.clear_tests()

    def observe(self, batch: Batch, effective: float) -> None:
        """Decide on the phase after one more batch."""
        self._epoch.add(batch, effective)
        self._close_return(batch, effective)
        if self._reset_scrapes > 0 and self._reset_shows(batch):
            return
        if self.phase not in ("cold", "oscillating") and self._track.swings.swinging(batch.to_s):
            self._oscillate(batch)
            return
        self._steps[self.phase](batch, effective)

    def accept(self, at_s: float) -> None:
        """Take the present level as the new baseline."""
        if self.phase not in ("degraded", "collapsed", "oscillating"):
            return
        level = self._run if self._run.rate is not None else self._track.recent()
        rate = level.rate
        if rate is None:
            return
        self._track.settle(level)
        low = rate <= self._config.low_rate
        self._enter("low" if low else "steady", self._low_cause() if low else None, at_s, at_s)

    def _held_level(self) -> float | None:
        track = self._track
        if self.phase in ("collapsed", "oscillating", "degraded"):
            return self.former
        if track.level is not None:
            return track.level
        return track.climb.last_half().rate if self.phase == "warming" else None

    def _new_epoch(self) -> None:
        self._track.forget()
        self._comparable = False
        self._return_open = False
        self._epoch = Sum()

    def _enter(self, phase: Phase, cause: Cause | None, at_s: float, onset_s: float) -> None:
        self.phase, self.cause = phase, cause
        self._entered_s, self.onset_s = at_s, onset_s
        self._run = Sum()
        self._recovery.clear()
        if phase == "warming":
            self._track.restart_climb()

    def _close_return(self, batch: Batch, effective: float) -> None:
        if not self._return_open:
            return
        self._returning.add(batch, effective)
        calm = self._track.drop.score == 0.0 and self.phase == "steady"
        if calm and self._returning.requests >= self._config.flat_requests:
            self._return_open = False

    def _reset_shows(self, batch: Batch) -> bool:
        """Within two scrapes of a known reset, a rate of half the level before is the fall."""
        self._reset_scrapes -= 1
        if self.former is None or batch.rate > self._config.reset_share * self.former:
            return False
        self._reset_scrapes = 0
        self._enter("collapsed", "reset", batch.to_s, batch.from_s)
        return True

    def _from_cold(self, batch: Batch, effective: float) -> None:
        track, config = self._track, self._config
        if track.climb.climbing(track.noise):
            self._enter("warming", self.cause, batch.to_s, batch.from_s)
        elif track.climb.flat(track.noise, config):
            self._settle(batch)

    def _from_warming(self, batch: Batch, effective: float) -> None:
        track, config = self._track, self._config
        before = track.recent(_FEW_REQUESTS * 3, self.onset_s)
        if before.effective >= _FEW_REQUESTS and before.rate is not None and before.rate >= _LEAST_WARM_RATE:
            track.fall.observe(batch, effective, before.rate, 0.1 * before.rate)
            if track.fallen(batch, before.rate, config.collapse_share):
                self._collapse(batch, before.rate)
                return
        if track.climb.flat(track.noise, config):
            self._settle(batch)

    def _settle(self, batch: Batch) -> None:
        """The curve is flat: say at which kind of level."""
        track, config = self._track, self._config
        level = track.climb.last_half()
        rate = level.rate
        assert rate is not None
        if rate <= config.low_rate:
            if self._should_have_warmed() and rate + track.error(level) <= config.low_rate:
                self._enter("low", self._low_cause(), batch.to_s, self._epoch.from_s)
            return
        former = self.former if self._comparable else None
        self._return_open = False
        track.settle(level)
        if former is not None and rate < former - track.least_step:
            cause = self._signals.of_change(self.onset_s)
            self._enter("degraded", cause, batch.to_s, self.onset_s)
            self.former = former
            self._run.merge(level)
        elif self._below_ceiling(level):
            self._enter("low", self._low_cause(), batch.to_s, self._epoch.from_s)
        else:
            self._enter("steady", None, batch.to_s, batch.to_s)

    def _should_have_warmed(self) -> bool:
        epoch, config = self._epoch, self._config
        return epoch.requests >= config.low_after_requests and epoch.to_s - epoch.from_s >= config.low_after_s

    def _below_ceiling(self, level: Sum) -> bool:
        config = self._config
        if config.ceiling is None or level.rate is None or not self._should_have_warmed():
            return False
        return level.rate + 2 * self._track.error(level) < config.ceiling_share * config.ceiling

    def _low_cause(self) -> Cause:
        return self._signals.of_low_rate(self._epoch.from_s)

    def _from_steady(self, batch: Batch, effective: float) -> None:
        track, config = self._track, self._config
        level = track.level
        assert level is not None
        track.test_steps(batch, effective, level)
        held = track.bursting and self._signals.of_change(track.drop.since.from_s) in ("unknown", "traffic_shift")
        if level >= _LEAST_WARM_RATE and not self._return_open:
            share = _BURST_COLLAPSE_SHARE if held else config.collapse_share
            if track.fallen(batch, level, share):
                self._collapse(batch, level)
                return
        if self._dropped(level, held):
            self._degrade(batch, level)
            return
        if track.rise.score >= track.threshold and track.rise.since.scrapes >= _RISE_SCRAPES:
            self._comparable, self.former = False, None
            track.baseline = None
            track.clear_tests()
            self._enter("warming", None, batch.to_s, track.rise.since.from_s)
            return
        track.follow(batch, effective, level)
        self._check_low(batch)

    def _dropped(self, level: float, held: bool) -> bool:
        track, config = self._track, self._config
        run, recent = track.drop.since, track.recent()
        if track.drop.score < track.threshold or run.rate is None or recent.rate is None:
            return False
        lasting_s = config.burst_lasting_s if held else config.lasting_s
        lasts = run.scrapes >= config.lasting_scrapes and run.to_s - run.from_s >= lasting_s
        deep = run.rate <= level - 0.8 * track.least_step and recent.rate <= level - track.least_step / 2
        return lasts and deep

    def _degrade(self, batch: Batch, level: float) -> None:
        track = self._track
        run = track.drop.since
        self.former, self._comparable = level, True
        if self._return_open:
            self._return_open = False
            self._enter("warming", "traffic_shift", batch.to_s, run.from_s)
            track.baseline = None
            track.clear_tests()
            return
        self._enter("degraded", self._signals.of_change(run.from_s), batch.to_s, run.from_s)
        self._run.merge(run)
        track.clear_tests()

    def _collapse(self, batch: Batch, level: float) -> None:
        onset_s = self._track.fall.since.from_s
        self.former, self._comparable = level, True
        self._enter("collapsed", self._signals.of_change(onset_s), batch.to_s, onset_s)
        self._track.baseline = None
        self._track.clear_tests()

    def _oscillate(self, batch: Batch) -> None:
        track = self._track
        onset_s = track.swings.first_turn_s or batch.from_s
        if self.phase == "steady":
            self.former, self._comparable = track.level, True
        self._enter("oscillating", self._signals.of_change(onset_s), batch.to_s, onset_s)
        track.baseline = None
        track.clear_tests()

    def _check_low(self, batch: Batch) -> None:
        track, config = self._track, self._config
        level, recent = track.baseline, track.recent()
        if level is None or level.rate is None or recent.rate is None:
            return
        low = level.rate + track.error(level) <= config.low_rate and recent.rate <= config.low_rate
        if (low and self._should_have_warmed()) or self._below_ceiling(level):
            self._enter("low", self._low_cause(), batch.to_s, batch.to_s)

    def _from_low(self, batch: Batch, effective: float) -> None:
        track, config = self._track, self._config
        recent = track.recent()
        leave = config.low_rate + config.low_exit
        if config.ceiling is not None:
            leave = max(leave, config.ceiling_share * config.ceiling + config.low_exit)
        if recent.rate is not None and recent.rate - 2 * track.error(recent) > leave:
            self.former, self._comparable = None, False
            track.baseline = None
            self._enter("warming", None, batch.to_s, recent.from_s)

    def _from_degraded(self, batch: Batch, effective: float) -> None:
        track, config = self._track, self._config
        former, now = self.former, self._run.rate
        assert former is not None
        if now is None:
            self._run.add(batch, effective)
            return
        track.fall.observe(batch, effective, now, 0.1 * now)
        if now >= _LEAST_WARM_RATE and track.fallen(batch, now, config.collapse_share):
            self._collapse(batch, former)
            return
        goal = former - track.least_step / 2
        self._recovery.observe(batch, effective, now, max(goal, now + 0.01))
        back = self._recovery.since
        if self._recovery.score >= _RECOVERY_SCORE and back.scrapes >= 2 and (back.rate or 0.0) >= goal:
            if track.baseline is None or (track.level or 0.0) < goal:
                track.settle(back)
            self._enter("steady", None, batch.to_s, back.from_s)
            return
        self._run.decay(math.exp(-(batch.to_s - batch.from_s) / config.baseline_memory_s))
        if self._recovery.score == 0.0:
            self._run.add(batch, effective)
        if batch.to_s - self._entered_s >= config.accept_after_s:
            self.accept(batch.to_s)

    def _from_collapsed(self, batch: Batch, effective: float) -> None:
        track, config = self._track, self._config
        self._run.add(batch, effective)
        recent = track.recent(_FEW_REQUESTS, self._entered_s)
        rate, floor = recent.rate, config.collapse_share * (self.former or 0.0)
        if rate is not None and rate - track.error(recent) > max(floor, 0.02):
            self._enter("warming", self.cause if self.cause == "reset" else None, batch.to_s, recent.from_s)
        elif batch.to_s - self._entered_s >= config.accept_after_s:
            self.accept(batch.to_s)

    def _from_oscillating(self, batch: Batch, effective: float) -> None:
        self._run.add(batch, effective)
        if self._track.swings.quiet():
            self._track.swings.clear()
            self._enter("warming", None, batch.to_s, batch.to_s)
