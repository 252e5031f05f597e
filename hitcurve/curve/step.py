"""A sequential test for one step of the hit rate: Page's CUSUM of binomial log-likelihood ratios.

E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954). By Lorden's bound (Annals of Mathematical
Statistics 42, 1971) a score of ``h`` is reached by chance after ``exp(h)`` independent requests at the earliest,
on average; the threshold follows from the number of requests a day and a budget of false alarms.
"""

import math

from hitcurve.curve.batch import Batch, Sum
from hitcurve.curve.noise import clipped

__all__ = ["SHARE_OF_PROOF", "StepTest", "proves_alone", "threshold"]

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

    def observe(self, batch: Batch, effective: float, now: float, then: float, most: float) -> None:
        """Take in a batch, which may add ``most`` to the score at most."""
        before, after = clipped(now), clipped(then)
        gain = batch.rate * math.log(after / before) + (1.0 - batch.rate) * math.log(
            (1.0 - after) / (1.0 - before)
        )
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


def _divergence(rate: float, before: float) -> float:
    """What one request with this rate says against ``before``, on average (Kullback and Leibler 1951)."""
    rate = clipped(rate)
    return rate * math.log(rate / before) + (1.0 - rate) * math.log((1.0 - rate) / (1.0 - before))
