"""Where a curve climbs to: its rates fitted by all approaches to a level, slow and fast ones."""

import math
from collections.abc import Sequence

from hitcurve.curve.batch import Sum
from hitcurve.curve.noise import Noise

__all__ = ["Approaches"]

_MOST_POINTS = 16
_SPANS = (0.06, 0.1, 0.16, 0.25, 0.4, 0.63, 1.0, 2.0)
"""Time constants of the approach, as shares of the evidence so far."""
_LEFT = [math.exp(-1.0 / span) for span in _SPANS]
"""Share of the rise that is still to come."""
_FITTED = 3
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)

Point = tuple[float, float, float]
"""Share of the requests before the middle of a stretch, its rate, and its weight."""


class Approaches:
    """All approaches of one curve to its level, weighed by how well they fit.

    Fits ``a + b (1 - exp(-u / span))`` for each span, with ``u`` the share of the requests so far, by weighted
    least squares with ``b`` at least 0 and the level ``a + b`` at most 1, and weighs the fits, and the flat line
    as one more, by their marginal likelihoods (``b`` uniform from 0 to 1 beforehand). With ``goal``, a level that
    the curve fell from, as many approaches to just that level are weighed too. Where even the best fit lies off
    the rates by more than their noise, the noise is taken to be larger by as much.
    """

    def __init__(self, bins: Sequence[Sum], noise: Noise, goal: float | None = None) -> None:
        points = _points(bins, noise)
        weight = sum(w for _, _, w in points)
        self._mean = mean = sum(w * y for _, y, w in points) / weight
        flat = sum(w * (y - mean) ** 2 for _, y, w in points)
        free, back = [], []
        for span in _SPANS:
            fall, fall_squared, fall_rate = _moments(points, span)
            free.append(_fit(fall, fall_squared, fall_rate, mean, weight, flat))
            if goal is not None:
                off = flat + weight * (goal - mean) ** 2
                back.append(_fit_to(goal, fall, fall_squared, fall_rate, off))
        best = min(flat, *(misfit for *_, misfit in (*free, *back)))
        wider = max(best / (len(points) - _FITTED), 1.0) if len(points) > _FITTED else 1.0
        self._flat_error = (wider / weight) ** 0.5
        self._flat = math.exp((best - flat) / (2.0 * wider))
        self._goal = goal
        self._free, self._back = (
            [
                (rise, error * wider**0.5, beyond, left, _likelihood(error * wider**0.5, (misfit - best) / wider))
                for (rise, error, beyond, misfit), left in zip(fits, _LEFT, strict=False)
            ]
            for fits in (free, back)
        )
        self._total = self._flat + sum(likelihood for *_, likelihood in (*self._free, *self._back))

    def doubt_of_level(self, gap: float) -> float:
        """Probability, from 0 to 1, that the curve has still more than ``gap`` to climb."""
        doubt = sum(
            likelihood * _above(rise * left - gap, error * left)
            for rise, error, _, left, likelihood in (*self._free, *self._back)
        )
        return doubt / self._total

    def reaches(self, rate: float) -> float:
        """Probability that the level which the curve climbs to lies above ``rate``."""
        found = self._flat * _above(self._mean - rate, self._flat_error)
        for rise, error, beyond, _, likelihood in self._free:
            spread = math.hypot(error * beyond, self._flat_error)
            found += likelihood * _above(self._mean + rise * beyond - rate, spread)
        if self._goal is not None and self._goal > rate:
            found += sum(likelihood for *_, likelihood in self._back)
        return found / self._total


def _points(bins: Sequence[Sum], noise: Noise) -> list[Point]:
    step = -(-len(bins) // _MOST_POINTS)
    pooled, stretches = Sum(), []
    for first in range(0, len(bins), step):
        stretch = Sum()
        for part in bins[first : first + step]:
            stretch.merge(part)
        stretches.append(stretch)
        pooled.merge(stretch)
    near, found, before = pooled.cautious_rate, [], 0.0
    for stretch in stretches:
        middle = (before + stretch.requests / 2.0) / pooled.requests
        before += stretch.requests
        variance = noise.variance(near, stretch.requests, stretch.scrapes)
        found.append((middle, stretch.rate or 0.0, 1.0 / variance))
    return found


def _moments(points: Sequence[Point], span: float) -> tuple[float, float, float]:
    """Weighted sums of ``exp(-u / span)``, of its square, and of its product with the rate."""
    fall = squared = product = 0.0
    for u, y, w in points:
        one = math.exp(-u / span)
        weighted = w * one
        fall += weighted
        squared += weighted * one
        product += weighted * y
    return fall, squared, product


def _fit(
    fall: float, fall_squared: float, fall_rate: float, mean: float, weight: float, flat: float
) -> tuple[float, float, float, float]:
    """Rise, its standard error, the share of it that lies between the mean of the curve and its level, and the
    squared misfit."""
    centre = fall / weight
    spread = fall_squared - fall * centre
    if spread <= 0.0:
        return 0.0, 1.0, centre, flat
    slope = fall * mean - fall_rate
    rise = max(slope / spread, 0.0)
    if mean + rise * centre > 1.0:
        off = flat + weight * (1.0 - mean) ** 2
        rise, _, _, misfit = _fit_to(1.0, fall, fall_squared, fall_rate, off)
        return rise, spread**-0.5, centre, misfit
    return rise, spread**-0.5, centre, flat - 2.0 * rise * slope + rise**2 * spread


def _fit_to(
    level: float, fall: float, fall_squared: float, fall_rate: float, off: float
) -> tuple[float, float, float, float]:
    """The same for a level that is given, off which the rates lie by ``off`` (squared and weighed)."""
    slope = level * fall - fall_rate
    rise = max(slope / fall_squared, 0.0)
    return rise, fall_squared**-0.5, 0.0, off - 2.0 * rise * slope + rise**2 * fall_squared


def _likelihood(error: float, misfit: float) -> float:
    return min(error * _ROOT_TWO_PI, 1.0) * math.exp(-misfit / 2.0)


def _above(distance: float, error: float) -> float:
    """Probability that a normal value lies above a bound that is ``distance`` below its mean."""
    return 0.5 * math.erfc(-distance / (error * math.sqrt(2.0))) if error > 0 else float(distance > 0)
