"""Everything that is measured on the curve: level, noise, tests for steps, trend, swings, pace of traffic."""

import math
from collections import deque

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.climb import Climb
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.noise import Noise
from hitcurve.curve.step import SHARE_OF_PROOF, Rest, StepTest, proves_alone, rest_of, threshold
from hitcurve.curve.swings import Swings

__all__ = ["Track"]

_RECENT_EFFECTIVE = 20.0
_RECENT_SCRAPES = 120
_DEEP_FALL = 0.1
_USUAL_SCRAPES = 10
_WANDER_SCRAPES = 300.0
_STRETCH_SCRAPES = 6
_SURE_ERRORS = 1.25
_SIZE_MEMORY_REQUESTS = 1000.0
_PACE_PRIOR_S = 60.0


class Track:
    """Measures one curve. ``level`` is what the rate is held against; ``None`` while nothing is proven."""

    def __init__(self, config: CurveConfig) -> None:
        self._config = config
        self.noise = Noise(config)
        self.baseline: Sum | None = None
        self._pending = Sum()
        self._held: deque[tuple[float, float, float]] = deque(maxlen=_RECENT_SCRAPES)
        self.fall = StepTest()
        self.drop = StepTest()
        self.rise = StepTest()
        self.climb = Climb()
        self.swings = Swings(config)
        self._recent: deque[tuple[Batch, float]] = deque(maxlen=_RECENT_SCRAPES)
        self._wander_squared = 0.0
        self._size_queries = 0.0
        self._size_requests = 0.0
        self._pace_requests = 0.0
        self._pace_s = 0.0
        self.pace_now = 0.0

    @property
    def level(self) -> float | None:
        return self.baseline.rate if self.baseline else None

    @property
    def pace(self) -> float:
        """Usual requests per second."""
        return self._pace_requests / max(self._pace_s, 1e-9)

    @property
    def bursting(self) -> bool:
        known = self._pace_s >= _PACE_PRIOR_S
        return known and self.pace_now >= self._config.burst_factor * self.pace

    @property
    def threshold(self) -> float:
        return threshold(max(self.pace, self.pace_now), self._config.false_alarms_per_day)

    @property
    def least_step(self) -> float:
        """Smallest fall of the level that is worth a name."""
        config = self._config
        level = self.level or 0.0
        scatter = max(self.noise.scatter, math.sqrt(self._wander_squared))
        return max(config.step_rate, config.step_share * level, config.step_scatters * scatter)

    def _proving_requests(self, batch: Batch) -> float:
        """Requests that a batch counts for. One that holds far more tokens than its requests (or, where they
        are not counted, the scrapes before) usually do may owe them to one huge request, and proves no more
        than that."""
        requests = batch.requests
        if batch.requests_known and self._size_requests >= _RECENT_EFFECTIVE:
            size = self._size_queries / self._size_requests
            excess = max(0.0, batch.queries - requests * size)
            requests = min(requests, batch.queries**2 / (excess**2 + requests * size**2))
        elif not batch.requests_known and self._recent:
            usual = max(before.queries for before, _ in list(self._recent)[-_USUAL_SCRAPES:])
            excess = max(0.0, batch.queries - usual)
            requests = min(requests, batch.queries**2 / (excess**2 + batch.queries**2 / requests))
        return requests

    def add(self, batch: Batch) -> float:
        """Take in a batch for everything but the tests; returns its effective requests."""
        near = self.level if self.level is not None else self.recent().rate
        requests = self._proving_requests(batch)
        effective = self.noise.effective(batch.rate if near is None else near, requests)
        if self.baseline is None and self._recent and not self.swings.swinging(batch.to_s):
            self.noise.learn_from_neighbours(self._recent[-1][0], batch)
        self._recent.append((batch, effective))
        self.climb.add(batch, effective)
        self.swings.add(batch, requests)
        return effective

    def pass_time(self, seconds: float, batch: Batch | None) -> None:
        """Learn the usual pace and size of requests from one interval, with or without traffic."""
        requests = batch.requests if batch else 0.0
        self.pace_now = requests / seconds if seconds > 0 else 0.0
        keep = math.exp(-seconds / self._config.baseline_memory_s)
        self._pace_requests = self._pace_requests * keep + requests
        self._pace_s = self._pace_s * keep + seconds
        if batch:
            keep = math.exp(-batch.requests / _SIZE_MEMORY_REQUESTS)
            self._size_queries = self._size_queries * keep + batch.queries
            self._size_requests = self._size_requests * keep + batch.requests

    def recent(self, effective: float = _RECENT_EFFECTIVE, after_s: float = -math.inf, skip: int = 0) -> Sum:
        """The newest scrapes, as many as prove something together; without the ``skip`` newest ones."""
        batches, proven, first = self._recent, 0.0, len(self._recent) - skip
        while first > 0 and proven < effective and batches[first - 1][0].from_s >= after_s:
            first -= 1
            proven += batches[first][1]
        total = Sum()
        for number in range(max(first, 0), len(batches) - skip):
            total.add(*batches[number])
        return total

    @property
    def before(self) -> Sum:
        """The newest scrapes before the last batch."""
        return self.recent(skip=1)

    def error(self, part: Sum) -> float:
        """Standard error of the rate of a sum."""
        if part.rate is None:
            return 1.0
        return float(self.noise.variance(part.cautious_rate, part.requests, part.scrapes) ** 0.5)

    def careful_error(self, part: Sum) -> float:
        """The same of requests that hit or miss as a whole: at another level than the noise was learnt at they
        may."""
        return self.error(part) * float(max(1.0, self.noise.request_noise**-0.5))

    def test_steps(self, batch: Batch, effective: float, level: float) -> None:
        """Feed the tests for a collapse, a step down and a rise from ``level``, less what it may be wrong by."""
        step = self.least_step
        assert self.baseline is not None
        cautious, error = self.baseline.cautious_rate, _SURE_ERRORS * self.error(self.baseline)
        low, high = min(level, cautious) - error, max(level, cautious) + error
        most, rest = self._most_score(batch), self._rest(batch, effective)
        self.fall.observe(batch, effective, low, _DEEP_FALL * low, most, rest)
        self.drop.observe(batch, effective, low, low - step, most, rest)
        self.rise.observe(batch, effective, high, high + step, most)

    def test_fall(self, batch: Batch, effective: float, level: float) -> None:
        """Feed the test for a collapse alone."""
        most, rest = self._most_score(batch), self._rest(batch, effective)
        self.fall.observe(batch, effective, level, _DEEP_FALL * level, most, rest)

    def _most_score(self, batch: Batch) -> float:
        """A scrape of few requests never proves a step alone: one huge request could fake it."""
        return math.inf if proves_alone(batch) else SHARE_OF_PROOF * self.threshold

    def _rest(self, batch: Batch, effective: float) -> Rest | None:
        """What it proves without that request, where an earlier scrape speaks for the fall too, so that it is not
        alone. ``None`` where requests or their usual size are not known."""
        if not self.suspected:
            return None
        if not batch.requests_known or not batch.volume_known or self._size_requests < _RECENT_EFFECTIVE:
            return None
        return rest_of(batch, effective, self.noise.request_noise, self._size_queries / self._size_requests)

    def fallen(self, batch: Batch, level: float, share: float) -> bool:
        """The rate is proven to have fallen below a share of ``level``."""
        run = self.fall.since
        if self.fall.proof < self.threshold or run.rate is None:
            return False
        last = float(self.noise.variance(batch.rate, batch.requests) ** 0.5)
        lowest = min(run.rate + self.error(run) / 2, batch.rate + last / 2)
        return lowest <= share * level

    def proven_fall(self) -> Sum | None:
        """The evidence since the onset of a fall of any depth, once it is proven."""
        for test in (self.fall, self.drop):
            if test.proof >= self.threshold:
                return test.since
        return None

    def follow(self, batch: Batch, effective: float, level: float) -> None:
        """Let the baseline follow. Scrapes under suspicion of a step wait until the suspicion is gone."""
        assert self.baseline is not None
        self._pending.add(batch, effective)
        self._held.append((batch.rate - level, level, batch.requests))
        suspected_s = self.drop.since.to_s - self.drop.since.from_s
        if self.drop.score > 0.0 and suspected_s < self._config.baseline_memory_s:
            return
        for residual, rate, requests in self._held:
            self.noise.learn(residual, rate, requests)
        self._held.clear()
        self._learn_wander(level)
        seconds = self._pending.to_s - self._pending.from_s
        self.baseline.decay(math.exp(-seconds / self._config.baseline_memory_s))
        self.baseline.merge(self._pending)
        self._pending = Sum()

    def _learn_wander(self, level: float) -> None:
        """How far the rate strays from its level for a while, beyond what its requests explain."""
        stretch = Sum()
        for batch, weight in list(self._recent)[-_STRETCH_SCRAPES:]:
            stretch.add(batch, weight)
        if stretch.rate is None:
            return
        strayed = max(0.0, (stretch.rate - level) ** 2 - self.error(stretch) ** 2)
        self._wander_squared += (strayed - self._wander_squared) / _WANDER_SCRAPES

    @property
    def suspected(self) -> bool:
        """Whether the newest scrapes may belong to a fall that is not proven yet."""
        return self.fall.score > 0.0 or self.drop.score > 0.0

    def settle(self, level: Sum) -> None:
        """Take a new baseline."""
        self.baseline = Sum()
        self.baseline.merge(level)
        self._pending = Sum()
        self.clear_tests()

    def clear_tests(self) -> None:
        for test in (self.fall, self.drop, self.rise):
            test.clear()
        self._pending = Sum()
        self._held.clear()

    def restart_climb(self, from_s: float = math.inf) -> None:
        """Look for a climb in what comes, and in the newest scrapes that began at ``from_s`` or later."""
        self.climb = Climb()
        for batch, effective in self._recent:
            if batch.from_s >= from_s:
                self.climb.add(batch, effective)

    def forget(self) -> None:
        """A cut: nothing measured before holds any more, but the noise and the pace of the traffic."""
        self.baseline = None
        self.clear_tests()
        self.restart_climb()
        self.swings.clear()
        self._recent.clear()
