"""A sequential test for one step of the hit rate: Page's CUSUM of binomial log-likelihood ratios.

E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954). By Lorden's bound (Annals of Mathematical
Statistics 42, 1971) a score of ``h`` is reached by chance after ``exp(h)`` independent requests at the earliest,
on average; the threshold follows from the number of requests a day and a budget of false alarms.
"""

import math
from dataclasses import dataclass

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.noise import clipped

__all__ = ["SHARE_OF_PROOF", "Rest", "StepTest", "proves_alone", "rest_of", "threshold"]

SHARE_OF_PROOF = 0.6
"""The most that a scrape brings which proves nothing alone."""

_DAY_S = 86_400.0
_LEAST_REQUESTS_A_DAY = 86_400.0
_SEARCH_COST = 1.0
_MANY_REQUESTS = 20.0
_MANY_UNCOUNTED_REQUESTS = 50.0


def threshold(requests_per_s: float, false_alarms_per_day: float) -> float:
    """The score at which a step is proven."""
    return math.log(max(requests_per_s * _DAY_S, _LEAST_REQUESTS_A_DAY) / false_alarms_per_day)


def proves_alone(batch: Batch) -> bool:
    """Whether a scrape holds enough requests to prove a step: one huge request could fake it otherwise."""
    return batch.requests >= (_MANY_REQUESTS if batch.requests_known else _MANY_UNCOUNTED_REQUESTS)


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of a scrape without the one request, or group of one fate, that could fake a fall."""

    rate: float
    effective: float

    def proves(self, now: float, then: float) -> float:
        """Score for a fall to ``then`` from ``now``, or for one of any depth if that is more."""
        if self.rate >= now:
            return 0.0
        return self.effective * max(_gain(self.rate, now, then), _divergence(self.rate, now))


def rest_of(batch: Batch, effective: float, request_noise: float, tokens_per_request: float) -> Rest | None:
    """The scrape without ``request_noise`` requests (at least one) that missed and hold all unusual tokens.

    What is left counts as independent requests at most: at another level than the noise was learnt at, requests
    may hit or miss as a whole. ``None`` where nothing would be left.
    """
    left_out = max(request_noise, 1.0)
    kept = batch.requests - left_out
    excess = max(0.0, batch.queries - batch.requests * tokens_per_request)
    queries = batch.queries - excess - left_out * batch.queries / batch.requests
    if kept <= 0.0 or queries <= 0.0:
        return None
    independent = min(effective, batch.requests)
    return Rest(rate=min(batch.hits / queries, 1.0), effective=independent * kept / batch.requests)


class StepTest:
    """Score for "the rate is now ``then``" against "it is still ``now``"; 0 while nothing speaks for it."""

    def __init__(self) -> None:
        self.score = self._spare = 0.0
        self.since = Sum()
        """Evidence since the likeliest time of the step."""
        self.votes = 0
        """Scrapes among it that lie nearer to ``then`` than to ``now``."""
        self.proof = 0.0
        """The larger of the score and of the generalised likelihood ratio of ``since``, less what the search
        for the best rate costs: a step larger than ``then`` is proven as soon as if its size had been known."""

    def observe(
        self, batch: Batch, effective: float, now: float, then: float, most: float, rest: Rest | None = None
    ) -> None:
        """Take in a batch, which may add ``most`` to the score at most, or what its ``rest`` proves of a fall."""
        before, after = clipped(now), clipped(then)
        gain = _gain(batch.rate, before, after)
        if rest is not None:
            most = max(most, rest.proves(before, after))
        self.score = max(0.0, self.score + min(effective * gain, most))
        if self.score == 0.0:
            self.clear()
        else:
            self.since.add(batch, effective)
            self.votes += abs(batch.rate - then) < abs(batch.rate - now)
            self._spare += max(effective * max(gain, _divergence(batch.rate, before)) - most, 0.0)
            self.proof = max(self.score, self._any_step(before, after) - _SEARCH_COST - self._spare)

    def _any_step(self, before: float, after: float) -> float:
        """Effective requests times the divergence of their rate from ``before``, on the side of ``after``."""
        rate = self.since.rate
        if rate is None or (rate - before) * (after - before) <= 0.0:
            return 0.0
        return self.since.effective * _divergence(rate, before)

    def clear(self) -> None:
        self.score = self.proof = self._spare = 0.0
        self.since = Sum()
        self.votes = 0


def _gain(rate: float, before: float, after: float) -> float:
    """What one request with this rate says for ``after`` against ``before``, on average."""
    return rate * math.log(after / before) + (1.0 - rate) * math.log((1.0 - after) / (1.0 - before))


def _divergence(rate: float, before: float) -> float:
    """What one request with this rate says against ``before``, on average (Kullback and Leibler 1951)."""
    rate = clipped(rate)
    return rate * math.log(rate / before) + (1.0 - rate) * math.log((1.0 - rate) / (1.0 - before))
