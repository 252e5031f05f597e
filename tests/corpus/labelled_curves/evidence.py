"""How much an observer can know: the requests that the best possible test needs, from the construction alone.

A test that knows both rates tells a rate ``after`` from ``before`` once the log-likelihood ratio of what it saw
reaches ``h = ln(requests a day / false alarms a day)`` (Wald 1945; Lorden 1971 for the mean time between false
alarms). One request brings the Kullback-Leibler divergence of the two rates on average, divided by the noise
factor of the requests. The classifier is given three times that: it
has to learn both rates and the noise, and even the best test takes twice its mean in one of twenty cases.
"""

import math
from collections.abc import Sequence

__all__ = ["alarm_score", "flat_requests", "requests_to_tell", "scrapes_for", "two_scrapes_prove"]

FALSE_ALARMS_A_DAY = 0.1
_DAY_S = 86_400.0
_MARGIN = 3.0
_FLAT_ERROR = 0.02
_FLAT_FEW = 100.0
_UNCOUNTED = 125.0
"""Requests of 800 tokens, the usual size here, that hold 100,000 tokens."""
_LONE_SHARE = 0.6


def alarm_score(qps: float) -> float:
    """Log-likelihood ratio at which a change is proven, given the budget of false alarms."""
    return math.log(max(qps, 1.0) * _DAY_S / FALSE_ALARMS_A_DAY)


def _clipped(rate: float) -> float:
    return min(max(rate, 0.02), 0.98)


def requests_to_tell(before: float, after: float, qps: float, noise: float) -> float:
    """Requests with rate ``after`` that prove it is no longer ``before``, with the margin."""
    p, q = _clipped(before), _clipped(after)
    divergence = q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    return _MARGIN * alarm_score(qps) * noise / divergence


def scrapes_for(requests: float, per_scrape: float, least: int = 2) -> int:
    """Scrapes that bring so many requests; the first one may hold the event at its end, so it counts for
    nothing."""
    return max(least, 1 + math.ceil(requests / per_scrape))


def two_scrapes_prove(shares: Sequence[float], requests: Sequence[float], *, counted: bool) -> bool:
    """Whether the requests that really came in the first two scrapes hold the evidence: ``shares`` is what one
    request brings of it. Where the engine counts no requests, the tokens of a scrape could be those of a single
    prompt up to 100,000 of them; such a scrape brings 0.6 of the evidence at most."""
    most = [1.0 if counted or came >= _UNCOUNTED else _LONE_SHARE for came in requests]
    brought = (min(share * came, bound) for share, came, bound in zip(shares, requests, most, strict=True))
    return bool(sum(brought) >= 1.0)


def flat_requests(rate: float, noise: float) -> float:
    """Requests that prove a curve flat: 0.02 of standard error between its last two quarters, or 100 effective
    requests where requests are too rare for that (with so few, flat only means that no rise shows)."""
    p = _clipped(rate)
    return min(8 * p * (1 - p) * noise / _FLAT_ERROR**2, _FLAT_FEW * max(noise, 1.0))
