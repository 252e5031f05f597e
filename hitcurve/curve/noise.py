"""How far a hit rate scatters although nothing changed, learnt from the curve itself.

The rate of a scrape with ``n`` requests has the variance ``p (1 - p) f / n + s**2``: the request noise ``f``
averages out with more requests, the scatter ``s`` (mix of traffic, bursts with one fate) does not.
"""

from hitcurve.curve.batch import Batch
from hitcurve.curve.config import CurveConfig

__all__ = ["Noise", "clipped"]

_LEAST_RATE = 0.02
_MOST_RATE = 1.0 - _LEAST_RATE
_REQUEST_NOISE = (0.5, 30.0)
_SCATTER = (0.01, 0.15)
_OUTLIER_VARIANCES = 9.0
_OUTLIER_REQUESTS = 200.0
_PRIOR_SCRAPES = 10.0


def clipped(rate: float) -> float:
    """A rate held off 0 and 1, where a binomial variance would vanish."""
    if rate < _LEAST_RATE:
        return _LEAST_RATE
    return rate if rate < _MOST_RATE else _MOST_RATE


def _binomial(rate: float) -> float:
    rate = clipped(rate)
    return rate * (1.0 - rate)


class Noise:
    """Request noise and scatter of one engine, estimated online by expectation-maximisation."""

    def __init__(self, config: CurveConfig) -> None:
        self._learnt = config.prior_request_noise
        self.scatter_squared = config.prior_scatter**2
        self._memory = float(config.noise_memory_scrapes)
        self._seen = min(_PRIOR_SCRAPES, self._memory)

    @property
    def request_noise(self) -> float:
        """The learnt noise factor, twice as large at first: what little was seen may not be all there is."""
        return self._learnt * (1.0 + min(_PRIOR_SCRAPES, self._memory) / self._seen)

    @property
    def scatter(self) -> float:
        return float(self.scatter_squared**0.5)

    def variance(self, rate: float, requests: float, scrapes: float = 1.0) -> float:
        """Variance of the rate of ``scrapes`` scrapes that hold ``requests`` requests together."""
        binomial = _binomial(rate)
        return binomial * self.request_noise / max(requests, 1e-9) + self.scatter_squared / max(scrapes, 1.0)

    def effective(self, rate: float, requests: float) -> float:
        """Independent, equally large requests that would prove as much as this scrape; bounded by the scatter."""
        binomial = _binomial(rate)
        return binomial / self.variance(rate, requests)

    def learn_from_neighbours(self, before: Batch, batch: Batch) -> None:
        """Take in the step between two scrapes, where no level is known that they should lie on."""
        pooled = (before.hits + batch.hits) / (before.queries + batch.queries)
        both = (1.0 + batch.requests / before.requests) ** 0.5
        self.learn((batch.rate - before.rate) / both, pooled, batch.requests)

    def learn(self, residual: float, rate: float, requests: float) -> None:
        """Take in how far one scrape lay off the level.

        Outliers are cut at three standard errors, later where requests are few: one miss among hits is no
        outlier. A scrape counts as much as it says: where less than one miss is due, its absence says little.
        """
        binomial = _binomial(rate)
        total = binomial * self._learnt / requests + self.scatter_squared
        squared = min(residual**2, (_OUTLIER_VARIANCES + _OUTLIER_REQUESTS / requests) * total)
        share = self.scatter_squared / total
        scatter = share**2 * squared + total * share * (1.0 - share)
        by_request = (1.0 - share) ** 2 * squared + total * share * (1.0 - share)
        weight = min(1.0, requests * binomial / self._learnt)
        self._seen = min(self._seen + weight, self._memory)
        gain = weight / self._seen
        moved = self._learnt + gain * (by_request * requests / binomial - self._learnt)
        self._learnt = min(max(moved, _REQUEST_NOISE[0]), _REQUEST_NOISE[1])
        moved = self.scatter_squared + gain * (scatter - self.scatter_squared)
        self.scatter_squared = min(max(moved, _SCATTER[0] ** 2), _SCATTER[1] ** 2)
