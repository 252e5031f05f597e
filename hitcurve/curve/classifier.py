"""The curve classifier: which state a replica's hit-rate curve is in, since when, why, and by which numbers."""

import math
from collections.abc import Sequence

from hitcurve.curve.batch import Batch, batch_from
from hitcurve.curve.causes import Signals
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.episodes import Episode, EpisodeLog
from hitcurve.curve.idle import Silence
from hitcurve.curve.phases import Phases
from hitcurve.curve.track import Track
from hitcurve.reading import UNHEALTHY_STATES, Cause, CurveState, Cut, Interval, StateName
from hitcurve.sample import EngineSample

__all__ = ["CurveClassifier"]


class CurveClassifier:
    """Names the state of one engine's curve, scrape by scrape. No clock: a function of what it is given."""

    def __init__(self, config: CurveConfig | None = None) -> None:
        self.config = config or CurveConfig()
        self._track = Track(self.config)
        self._signals = Signals()
        self._phases = Phases(self.config, self._track, self._signals)
        self._silence = Silence(self.config)
        self._episodes = EpisodeLog()
        self._state: CurveState | None = None
        self._was_idle_s = 0.0
        self._accept = False

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Incidents so far in order of onset; the last may still go on."""
        return self._episodes.all

    @property
    def state(self) -> CurveState | None:
        """The state after the last scrape; ``None`` before the first."""
        return self._state

    def accept(self) -> None:
        """Take the present level as the new baseline from the next scrape on."""
        self._accept = True

    def observe(
        self,
        interval: Interval | None,
        sample: EngineSample | None,
        at_s: float,
        cuts: tuple[Cut, ...] = (),
    ) -> CurveState:
        """Take in one scrape at ``at_s`` (Unix seconds) and return the state after it.

        ``interval`` is the traffic since the last good scrape, ``None`` at the first and at a failed one;
        ``sample`` is ``None`` at a failed one, which leaves the state as it was.
        """
        if sample is None and interval is None and not cuts:
            return self._show(at_s, None, None)
        batch = batch_from(interval, self.config.tokens_per_request) if interval is not None else None
        self._take_cuts(interval, at_s, cuts, batch)
        if sample is not None:
            self._signals.observe(at_s, sample, batch, cuts)
        if interval is not None:
            self._take_interval(interval, batch, sample, at_s)
        if self._accept:
            self._phases.accept(at_s)
            self._accept = False
        shown = self._show(at_s, batch, sample)
        self._signals.judge(healthy=shown.state == "steady", suspected=self._track.suspected)
        return shown

    def _take_cuts(self, interval: Interval | None, at_s: float, cuts: Sequence[Cut], batch: Batch | None) -> None:
        kinds = {cut.kind for cut in cuts}
        restarted = "restart" in kinds or (interval is not None and interval.restarts > 0)
        onset_s = min((cut.at_s for cut in cuts if cut.kind in ("restart", "reset")), default=at_s)
        if restarted:
            self._episodes.begin(onset_s, self._phases.held_level(), "restart")
            self._phases.restart(at_s, "restart")
        elif "start" in kinds:
            self._phases.restart(at_s, None)
        elif "reset" in kinds:
            idle = self._state is None or self._state.state == "no_traffic"
            self._phases.reset(at_s, traffic=batch is not None or not idle)
            if batch is not None:
                self._episodes.begin(onset_s, self._phases.former, "reset")

    def _take_interval(
        self, interval: Interval, batch: Batch | None, sample: EngineSample | None, at_s: float
    ) -> None:
        seconds = interval.to_s - interval.from_s
        known = interval.queries is not None or interval.hit_rate is not None
        waiting = sample is not None and (sample.waiting or 0.0) > 0
        if not known:
            return
        if batch is None:
            self._silence.observe(interval.from_s, interval.to_s, moved=False, waiting=waiting)
            self._was_idle_s = self._silence.length_s(at_s)
            self._track.pass_time(seconds, None)
            return
        if self._was_idle_s >= self.config.return_after_s:
            self._phases.after_idle()
        self._was_idle_s = 0.0
        self._silence.observe(interval.from_s, interval.to_s, moved=True, waiting=waiting)
        self._track.pass_time(seconds, batch)
        effective = self._track.add(batch)
        self._phases.observe(batch, effective)
        self._episodes.observe(batch)

    def _show(self, at_s: float, batch: Batch | None, sample: EngineSample | None) -> CurveState:
        state, cause = self._named(at_s)
        last = self._state
        if last is not None and last.state == state:
            since_s = last.since_s
            self._episodes.name(cause)
            if last.cause not in (None, "unknown") and cause in (None, "unknown"):
                cause = last.cause
        else:
            since_s = at_s
            self._follow_episode(state, cause, at_s)
        self._state = CurveState(state, cause, since_s, self._evidence(state, at_s, batch, sample))
        return self._state

    def _named(self, at_s: float) -> tuple[StateName, Cause | None]:
        if self._silence.stalled(at_s):
            return "stalled", "unknown"
        if self._silence.idle(at_s):
            return "no_traffic", None
        return self._phases.phase, self._phases.cause

    def _follow_episode(self, state: StateName, cause: Cause | None, at_s: float) -> None:
        dipped = state == "warming" and self._phases.proof.scrapes > 0
        if state in UNHEALTHY_STATES or dipped:
            onset_s = at_s - self._silence.length_s(at_s) if state == "stalled" else self._phases.onset_s
            self._episodes.begin(onset_s, self._phases.former, cause or "unknown", self._phases.proof)
        elif state == "steady":
            self._episodes.end(at_s)

    def _evidence(
        self, state: StateName, at_s: float, batch: Batch | None, sample: EngineSample | None
    ) -> dict[str, float | str | None]:
        track = self._track
        recent = track.recent()
        rate = recent.rate if state not in ("no_traffic", "stalled") else None
        level = track.level if track.level is not None else self._phases.former
        test = track.fall if track.fall.score > track.drop.score else track.drop
        return {
            "rate": rate,
            "uncertainty": None if rate is None or not math.isfinite(rate) else track.error(recent),
            "baseline": level,
            "tokens": recent.queries,
            "requests": recent.requests,
            "scrape_rate": batch.rate if batch is not None else None,
            "scrape_tokens": batch.queries if batch is not None else None,
            "onset_s": self._phases.onset_s,
            "score": test.score,
            "threshold": track.threshold,
            "request_noise": track.noise.request_noise,
            "scatter": track.noise.scatter,
            "turns": float(len(track.swings.turns(at_s))),
            "silence_s": self._silence.length_s(at_s),
            "waiting": sample.waiting if sample is not None else None,
            "miss_reason": self._signals.miss_reason(self._phases.onset_s),
        }
