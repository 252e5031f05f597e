"""Where a climb goes: probabilities against numerical integration, and what anybody would say of clear curves."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve.curve import CurveConfig
from hitcurve.curve.approach import Approaches
from hitcurve.curve.batch import Sum
from hitcurve.curve.noise import Noise

SPANS = (0.06, 0.1, 0.16, 0.25, 0.4, 0.63, 1.0, 2.0)
NOISE = Noise(CurveConfig())


def stretches(rates: Sequence[float], requests: float = 200.0) -> list[Sum]:
    """One scrape each."""
    return [
        Sum(15.0 * n, 15.0 * n + 15.0, requests * 100, requests * 100 * rate, requests, requests / 2, 1.0)
        for n, rate in enumerate(rates)
    ]


def climbing(level: float, tau: float, count: int, low: float = 0.0) -> list[float]:
    return [level - (level - low) * math.exp(-(n + 0.5) / tau) for n in range(count)]


def integrated(bins: Sequence[Sum], gap: float, above: float) -> tuple[float, float]:
    """Doubt of the level, and whether it lies above a rate, summed over a grid of rises."""
    total = Sum()
    for part in bins:
        total.merge(part)
    y = np.array([part.hits / part.queries for part in bins])
    u = (np.arange(len(bins)) + 0.5) / len(bins)
    w = 1.0 / np.array([NOISE.variance(total.cautious_rate, part.requests) for part in bins])
    mean = np.average(y, weights=w)
    rise = np.linspace(0.0, 1.0, 20_001)
    flat = math.exp(-float(np.sum(w * (y - mean) ** 2)) / 2)
    everything, doubt = flat, 0.0
    reached = flat * (mean > above)
    for span in SPANS:
        shape = 1.0 - np.exp(-u / span)
        centred = shape - np.average(shape, weights=w)
        misfit = np.array([np.sum(w * (y - mean - b * centred) ** 2) for b in rise])
        likelihood = np.exp(-misfit / 2) / len(rise)
        level = mean + rise * (1.0 - np.average(shape, weights=w))
        everything += likelihood.sum()
        doubt += likelihood[rise * math.exp(-1.0 / span) > gap].sum()
        reached += likelihood[level > above].sum()
    return doubt / everything, reached / everything


@pytest.mark.parametrize("seen", [8, 12, 16])
def test_probabilities_are_those_of_numerical_integration(seen: int) -> None:
    bins = stretches(climbing(0.7, 8.0, seen, 0.1))
    doubt, reached = integrated(bins, 0.06, 0.6)
    found = Approaches(bins, NOISE)
    assert found.doubt_of_level(0.06) == pytest.approx(doubt, abs=0.04)
    assert found.reaches(0.6) == pytest.approx(reached, abs=0.08)


def test_a_level_is_not_doubted_and_a_straight_climb_is() -> None:
    assert Approaches(stretches([0.8] * 12), NOISE).doubt_of_level(0.06) < 0.05
    assert Approaches(stretches([0.05 * n for n in range(12)]), NOISE).doubt_of_level(0.06) > 0.95
    assert Approaches(stretches(climbing(0.8, 2.0, 20)), NOISE).doubt_of_level(0.06) < 0.2


def test_what_fell_climbs_back_unless_its_rates_say_otherwise() -> None:
    early, stuck = stretches(climbing(0.8, 6.0, 5), 20.0), stretches([0.4] * 16, 20.0)
    assert Approaches(early, NOISE, 0.8).reaches(0.7) > 1.2 * Approaches(early, NOISE).reaches(0.7) > 0.1
    assert Approaches(stuck, NOISE, 0.8).reaches(0.7) < 0.05


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.001, 1e6)), min_size=2, max_size=48),
    st.none() | st.floats(0.02, 1.0),
)
def test_probabilities_of_any_curve_are_probabilities(
    curve: list[tuple[float, float]], goal: float | None
) -> None:
    bins = [stretches([rate], requests)[0] for rate, requests in curve]
    found = Approaches(bins, NOISE, goal)
    for probability in (found.doubt_of_level(0.06), found.reaches(0.5)):
        assert -1e-9 <= probability <= 1 + 1e-9
