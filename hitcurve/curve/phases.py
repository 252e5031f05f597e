"""The states that traffic proves, and what leads from one to the next.

``no_traffic`` and ``stalled`` lie over these and are decided by the classifier itself. Longer than 300 lines
because a state machine is read as a whole.
"""

import math
from collections.abc import Callable
from typing import Literal

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.causes import Signals
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.low import LowRate
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
_CLIMB_ERRORS = 3.0
_FALLEN: tuple[Phase, ...] = ("degraded", "collapsed", "oscillating")
_NAMING_SCRAPES = 8
_STEADY_FLATS = 2
_LEAST_KEPT = 1e-3
_STUCK_SCRAPES = 8
_CLIMBS_ON_S = 7200.0


class Phases:
    """Follows the phase of one curve, batch by batch."""

    def __init__(self, config: CurveConfig, track: Track, signals: Signals) -> None:
        self._config = config
        self._track = track
        self._signals = signals
        self._low = LowRate(config)
        self.phase: Phase = "cold"
        self.cause: Cause | None = None
        self.onset_s = 0.0
        """Where the present phase began on the curve; the scrape that proved it came later."""
        self.former: float | None = None
        """The level before the fall."""
        self._comparable = False
        """Whether ``former`` belongs to this epoch, so that the curve may be held against it."""
        self.proof = Sum()
        """The traffic from the onset to the scrape that proved the fall which led to the present phase, where
        one was proven."""
        self._run = Sum()
        self._recovery = StepTest()
        self._reset_scrapes = 0
        self._flats = 0
        self._entered_s = 0.0
        self._returned: Sum | None = None
        self._steps: dict[Phase, Callable[[Batch, float], None]] = {
            "cold": self._from_cold,
            "warming": self._from_warming,
            "steady": self._from_steady,
            "low": self._from_low,
            "degraded": self._from_degraded,
            "collapsed": self._from_collapsed,
            "oscillating": self._from_oscillating,
        }

    # What happens to the engine

    def restart(self, at_s: float, cause: Cause | None) -> None:
        """The engine (re)started: everything is new."""
        self.former = self.held_level()
        self._new_epoch()
        self._reset_scrapes = 0
        self._enter("cold", cause, at_s, at_s)

    def reset(self, at_s: float, traffic: bool) -> None:
        """The cache was cleared. Under traffic from a warm level the next scrapes tell whether it was a fall."""
        self.former = self.held_level()
        warm = self.former is not None and self.former > self._config.low_rate
        cold = self.phase == "cold"
        self._new_epoch()
        self._reset_scrapes = _RESET_SCRAPES if warm and traffic else 0
        self._enter("cold" if cold else "warming", "reset", at_s, at_s)

    def after_idle(self) -> None:
        """Traffic returns after a long silence: what is new since then must miss first."""
        self._returned = Sum()
        self._track.clear_tests()

    def accept(self, at_s: float) -> None:
        """Take the present level as the new baseline."""
        level = self._run if self._run.rate is not None else self._track.recent()
        if self.phase not in _FALLEN or level.rate is None:
            return
        self._track.settle(level)
        self._track.restart_climb()
        low = level.rate <= self._config.low_rate
        self._enter("low" if low else "steady", self._low_cause() if low else None, at_s, at_s)

    def observe(self, batch: Batch, effective: float) -> None:
        """Decide on the phase after one more batch."""
        if self._reset_scrapes > 0 and self._reset_shows(batch):
            return
        if self.phase not in ("cold", "oscillating") and self._swinging(batch):
            self._oscillate(batch)
            return
        before = self.phase
        self._steps[self.phase](batch, effective)
        self._watch_return(batch, effective)
        if (
            self.phase == before
            and self.cause == "unknown"
            and self.phase in _FALLEN
            and self._run.scrapes <= _NAMING_SCRAPES
        ):
            self.cause = self._signals.of_change(self.onset_s)

    def _swinging(self, batch: Batch) -> bool:
        swings, config = self._track.swings, self._config
        if swings.swinging(batch.to_s):
            return True
        if not swings.swinging(batch.to_s, config.swing_turns_signalled):
            return False
        first_s, second_s, *_ = swings.turns(batch.to_s)
        return self._signals.blocks_lost(first_s, second_s) and self._signals.blocks_lost(second_s, batch.to_s)

    def held_level(self) -> float | None:
        """The level that a fall from here is measured against."""
        track = self._track
        if self.phase in _FALLEN:
            return self.former
        if track.level is not None:
            return track.level
        return track.climb.last_half().rate if self.phase == "warming" else None

    def _new_epoch(self) -> None:
        self._track.forget()
        self._comparable = False
        self._returned = None

    def _enter(
        self, phase: Phase, cause: Cause | None, at_s: float, onset_s: float, *, climbs_on: bool = False
    ) -> None:
        before, self.phase, self.cause = self.phase, phase, cause
        self._entered_s, self.onset_s = at_s, onset_s
        self._run = Sum()
        self.proof = Sum()
        self._flats = 0
        self._recovery.clear()
        if phase == "warming" and before != "cold" and not climbs_on:
            self._track.restart_climb(onset_s if before == "collapsed" else math.inf)

    def _watch_return(self, batch: Batch, effective: float) -> None:
        if self._returned is None:
            return
        self._returned.add(batch, effective)
        calm = self._track.drop.score == 0.0 and self.phase == "steady"
        if calm and self._returned.effective >= self._config.flat_requests:
            self._returned = None

    def _reset_shows(self, batch: Batch) -> bool:
        """Within two scrapes of a known reset, a rate far below the level before is the fall."""
        self._reset_scrapes -= 1
        if self.former is None or batch.rate > self._config.reset_share * self.former:
            return False
        self._reset_scrapes = 0
        self._enter("collapsed", "reset", batch.to_s, batch.from_s)
        return True

    def _leave_level(self, former: float | None) -> None:
        """The curve has left its baseline; ``former`` is what it may be held against later, if anything."""
        self.former, self._comparable = former, former is not None
        self._track.baseline = None
        self._track.clear_tests()

    # Warming up

    def _from_cold(self, batch: Batch, effective: float) -> None:
        track = self._track
        if track.climb.climbing(track.noise) and (track.climb.last_half().rate or 0.0) > self._config.low_rate:
            self._enter("warming", self.cause, batch.to_s, batch.from_s)
        elif self._never_rose():
            self._enter("low", self._low_cause(), batch.to_s, track.climb.total.from_s)
        elif self._stays_flat(_STEADY_FLATS):
            self._settle(batch)

    def _never_rose(self) -> bool:
        """There was traffic enough to warm, and the rate is still almost nothing and does not grow."""
        track, total = self._track, self._track.climb.total
        if not self._low.warmed(total) or not self._low.almost_nothing(total, track.error(total)):
            return False
        return not track.climb.rises_from_nothing(track.noise)

    def _stays_flat(self, scrapes: int) -> bool:
        """The curve read flat at so many scrapes in a row, this one included; to be asked once a scrape."""
        former = self.former if self._comparable else None
        flat = self._track.climb.flat(self._track.noise, self._config, former)
        self._flats = self._flats + 1 if flat else 0
        return self._flats >= scrapes

    def _from_warming(self, batch: Batch, effective: float) -> None:
        track = self._track
        before = track.before
        if before.effective >= _FEW_REQUESTS and before.rate is not None and before.rate >= _LEAST_WARM_RATE:
            track.test_fall(batch, effective, before.rate)
            if track.fallen(batch, before.rate, self._config.collapse_share):
                self._collapse(batch, before.rate)
                return
        if self._back_at_level(batch, effective):
            track.settle(self._recovery.since)
            track.restart_climb()
            self._returned = None
            self._enter("steady", None, batch.to_s, batch.to_s)
        elif self._stays_flat(_STEADY_FLATS):
            self._settle(batch)
        elif self._stuck_below():
            self._settle_below(batch, self._track.climb.last_half())

    def _back_at_level(self, batch: Batch, effective: float) -> bool:
        """The newest scrapes prove that the curve lies at the level which it fell from, however it came there."""
        former, step = self.former, self._track.least_step
        if former is None or not self._comparable or former <= step:
            return False
        self._recovery.observe(batch, effective, former - step, former, math.inf)
        back = self._recovery.since
        if self._recovery.score < _RECOVERY_SCORE or back.scrapes < self._config.flat_scrapes:
            return False
        return abs((back.rate or 0.0) - former) <= step / 2 and batch.rate <= former + step

    def _stuck_below(self) -> bool:
        """The curve lies below the level that it fell from, and hardly climbs back to it."""
        track, former = self._track, self.former
        now = track.climb.last_half().rate
        if former is None or now is None or not self._comparable or now >= former - track.least_step:
            return False
        if track.climb.total.scrapes < _STUCK_SCRAPES:
            return False
        return track.climb.misses(former, former - track.least_step / 2, track.noise, self._config)

    def _settle_below(self, batch: Batch, level: Sum) -> None:
        """The fall is lasting: the rate stays below the level that it fell from."""
        assert level.rate is not None
        assert self.former is not None
        cause, onset_s = self._signals.of_change(self.onset_s), self.onset_s
        below = level.rate + self._track.error(level)
        if below <= self._config.collapse_share * self.former:
            self._enter("collapsed", cause, batch.to_s, onset_s)
            return
        self._returned = None
        self._track.settle(level)
        self._enter("degraded", cause, batch.to_s, onset_s)
        self._run.merge(level)

    def _settle(self, batch: Batch) -> None:
        """The curve is flat: say at which kind of level."""
        track, stretch = self._track, self._track.climb.total
        level = track.climb.last_half()
        rate, error = level.rate, track.error(level)
        assert rate is not None
        former = self.former if self._comparable else None
        below = former is not None and rate < former - track.least_step
        if below and self._flats < _STEADY_FLATS + self._config.lasting_scrapes:
            return
        if below:
            self._settle_below(batch, level)
            return
        warmed = self._low.warmed(stretch)
        if not warmed and rate - error <= self._config.low_rate:
            return
        if rate <= self._config.low_rate and not self._low.almost_nothing(level, error):
            return
        if rate <= self._config.low_rate and track.climb.rises_from_nothing(track.noise):
            return
        if warmed and (self._low.almost_nothing(level, error) or self._low.below_ceiling(level, error)):
            self._enter("low", self._low_cause(), batch.to_s, stretch.from_s)
            return
        self._returned = None
        track.settle(level)
        self._enter("steady", None, batch.to_s, batch.to_s)

    def _low_cause(self) -> Cause:
        return self._signals.of_low_rate(self._track.climb.total.from_s)

    # Falling from a level

    def _from_steady(self, batch: Batch, effective: float) -> None:
        track = self._track
        level = track.level
        assert level is not None
        track.test_steps(batch, effective, level)
        burst = track.bursting and self._signals.of_change(track.drop.since.from_s) in ("unknown", "traffic_shift")
        share = _BURST_COLLAPSE_SHARE if burst else self._config.collapse_share
        if level >= _LEAST_WARM_RATE and self._returned is None and track.fallen(batch, level, share):
            self._collapse(batch, level)
        elif self._dipped():
            self._leave_dip(batch, level, incident=not burst and self._returned is None)
        elif self._dropped(level, burst):
            self._degrade(batch, level)
        elif track.rise.score >= track.threshold and track.rise.since.scrapes >= _RISE_SCRAPES:
            onset_s = track.rise.since.from_s
            self._leave_level(None)
            self._enter("warming", None, batch.to_s, onset_s)
        elif self._climbs_on(batch, level):
            onset_s = batch.from_s
            self._leave_level(None)
            self._enter("warming", None, batch.to_s, onset_s, climbs_on=True)
        else:
            track.follow(batch, effective, level)
            self._check_low(batch)

    def _climbs_on(self, batch: Batch, level: float) -> bool:
        """A slow climb that the baseline would follow. Not asked for ever: what takes hours is the day's drift."""
        climb = self._track.climb
        if batch.rate <= level or batch.to_s - climb.total.from_s > _CLIMBS_ON_S or not climb.grown:
            return False
        return climb.climbs_on(self._track.noise, self._config)

    def _dipped(self) -> bool:
        """A fall is proven, and the curve already climbs out of it."""
        track = self._track
        run = track.proven_fall()
        if run is None or run.rate is None:
            return False
        recent = track.recent(after_s=run.from_s)
        if recent.rate is None or recent.scrapes >= run.scrapes:
            return False
        return recent.rate - run.rate > _CLIMB_ERRORS * track.careful_error(recent)

    def _leave_dip(self, batch: Batch, level: float, *, incident: bool) -> None:
        """``incident`` is false where new prompts must miss first, which explains the dip."""
        run = self._track.proven_fall() or self._track.drop.since
        onset_s = run.from_s
        self._leave_level(level)
        self._enter("warming", self._signals.of_change(onset_s), batch.to_s, onset_s)
        if incident:
            self.proof = run

    def _dropped(self, level: float, burst: bool) -> bool:
        track, config = self._track, self._config
        run, recent = track.drop.since, track.recent()
        if run.rate is None or recent.rate is None or not self._drop_proven(run, run.rate, level):
            return False
        lasting_s = config.burst_lasting_s if burst else config.lasting_s
        lasts = track.drop.votes >= config.lasting_scrapes and run.to_s - run.from_s >= lasting_s
        deep = run.rate <= level - 0.9 * track.least_step and recent.rate <= level - track.least_step / 2
        return lasts and deep

    def _drop_proven(self, run: Sum, rate: float, level: float) -> bool:
        """By the rate alone, or, where it is surely no collapse, with what other signals tell since the onset."""
        track, config = self._track, self._config
        missing = track.threshold - track.drop.proof
        if missing <= 0.0:
            return True
        if missing > config.signalled_score or rate - track.error(run) <= config.collapse_share * level:
            return False
        return self._signals.blocks_lost(run.from_s, run.to_s)

    def _degrade(self, batch: Batch, level: float) -> None:
        track, run = self._track, self._track.drop.since
        if self._returned is not None:
            self._returned = None
            self._leave_level(level)
            self._enter("warming", "traffic_shift", batch.to_s, run.from_s)
            return
        self.former, self._comparable = level, True
        self._enter("degraded", self._signals.of_change(run.from_s), batch.to_s, run.from_s)
        self._run.merge(run)
        self.proof = run
        track.clear_tests()

    def _collapse(self, batch: Batch, level: float) -> None:
        run = self._track.fall.since
        self._leave_level(level)
        self._enter("collapsed", self._signals.of_change(run.from_s), batch.to_s, run.from_s)
        self.proof = run

    def _oscillate(self, batch: Batch) -> None:
        onset_s = self._track.swings.turns(batch.to_s)[0]
        former = self._track.level if self.phase == "steady" else (self.former if self._comparable else None)
        self._leave_level(former)
        self._enter("oscillating", self._signals.of_change(onset_s), batch.to_s, onset_s)

    def _check_low(self, batch: Batch) -> None:
        track, low = self._track, self._low
        level, recent = track.baseline, track.recent()
        if level is None or recent.rate is None or not low.warmed(track.climb.total):
            return
        error = track.error(level)
        nothing = low.almost_nothing(level, error) and recent.rate <= self._config.low_rate
        if nothing or low.below_ceiling(level, error):
            self._enter("low", self._low_cause(), batch.to_s, batch.to_s)

    # Coming back

    def _from_low(self, batch: Batch, effective: float) -> None:
        track = self._track
        recent = track.recent()
        if self._low.left(recent, track.error(recent)):
            self._leave_level(None)
            self._enter("warming", None, batch.to_s, recent.from_s)

    def _from_degraded(self, batch: Batch, effective: float) -> None:
        track, config = self._track, self._config
        former, now = self.former, self._run.rate
        assert former is not None
        assert now is not None
        track.test_fall(batch, effective, now)
        if now >= _LEAST_WARM_RATE and track.fallen(batch, now, config.collapse_share):
            self._collapse(batch, former)
            return
        goal = former - track.least_step / 2
        self._recovery.observe(batch, effective, now, max(goal, now + 0.01), math.inf)
        back = self._recovery.since
        if self._recovery.score >= _RECOVERY_SCORE and back.scrapes >= 2 and (back.rate or 0.0) >= goal:
            if (track.level or 0.0) < goal:
                track.settle(back)
            track.restart_climb()
            self._enter("steady", None, batch.to_s, back.from_s)
            return
        self._run.decay(max(math.exp(-(batch.to_s - batch.from_s) / config.baseline_memory_s), _LEAST_KEPT))
        if self._recovery.score == 0.0:
            self._run.add(batch, effective)
        if batch.to_s - self._entered_s >= config.accept_after_s:
            self.accept(batch.to_s)

    def _from_collapsed(self, batch: Batch, effective: float) -> None:
        track, config = self._track, self._config
        floor = max(config.collapse_share * (self.former or 0.0), 0.02)
        now = batch.rate if self._run.rate is None else self._run.rate
        self._recovery.observe(batch, effective, now, max(floor, now + 0.05), math.inf)
        if self._recovery.score == 0.0:
            self._run.add(batch, effective)
        recent = track.recent(_FEW_REQUESTS, self._entered_s)
        if recent.rate is not None and recent.rate - track.error(recent) > floor:
            onset_s = self._recovery.since.from_s if self._recovery.score > 0.0 else recent.from_s
            self._enter("warming", self.cause if self.cause == "reset" else None, batch.to_s, onset_s)
        elif batch.to_s - self._entered_s >= config.accept_after_s:
            self.accept(batch.to_s)

    def _from_oscillating(self, batch: Batch, effective: float) -> None:
        self._run.add(batch, effective)
        if not self._track.swings.go_on(batch.to_s):
            self._track.swings.calm(batch.to_s)
            self._enter("warming", None, batch.to_s, batch.to_s)
