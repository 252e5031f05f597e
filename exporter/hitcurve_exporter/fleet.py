"""All engines together, those of each model, those behind each address: ratio of sums, never mean of ratios."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt

from hitcurve.monitor import total_windows
from hitcurve.reading import STATES, Reading, WindowRate

__all__ = ["Fleet", "ModelFleet", "fleet_of"]


@dataclass(frozen=True, slots=True)
class ModelFleet:
    """The engines of one model."""

    engines: int
    engines_up: int
    windows: tuple[WindowRate, ...]
    spreads: Mapping[float, float]
    """By window: how far the engines' hit rates lie apart, where at least two had traffic.

    The standard deviation weighted with query tokens, around the model's own hit rate: 0 where all engines hit
    alike, and an engine that saw few tokens hardly counts. Routing without regard to prefixes, a cold replica and
    one with a smaller pool all show here.
    """


@dataclass(frozen=True, slots=True)
class Fleet:
    """Sums over engines. ``windows`` cover the engines that are up and whose volumes are known in tokens."""

    engines: int
    engines_up: int
    windows: tuple[WindowRate, ...]
    states: dict[str, int]
    """Engines in each curve state, 0 for a state that none is in; those that are down are in none."""
    models: Mapping[str, ModelFleet] = field(default_factory=dict)
    """By model name; engines whose page names no model are in none."""


def fleet_of(readings: Iterable[Reading]) -> Fleet:
    """The fleet as the newest readings of its engines show it."""
    known = [reading for reading in readings if reading.up or reading.engine]
    up = [reading for reading in known if reading.up]
    states = Counter(dict.fromkeys(STATES, 0))
    states.update(reading.state.state for reading in up if reading.state is not None)
    by_model: dict[str, list[Reading]] = {}
    for reading in known:
        if model := reading.labels.get("model_name"):
            by_model.setdefault(model, []).append(reading)
    return Fleet(
        len(known),
        len(up),
        total_windows(up),
        {str(state): count for state, count in states.items()},
        {model: _model_of(found) for model, found in sorted(by_model.items())},
    )


def _model_of(readings: list[Reading]) -> ModelFleet:
    up = [reading for reading in readings if reading.up]
    windows = total_windows(up)
    return ModelFleet(len(readings), len(up), windows, _spreads(windows, up))


def _spreads(totals: Iterable[WindowRate], readings: Iterable[Reading]) -> dict[float, float]:
    whole = {total.window_s: total for total in totals}
    squares = dict.fromkeys(whole, 0.0)
    engines = dict.fromkeys(whole, 0)
    for reading in readings:
        for window in reading.windows:
            total_rate = whole[window.window_s].hit_rate
            if window.hit_rate is not None and total_rate is not None:
                squares[window.window_s] += window.queries * (window.hit_rate - total_rate) ** 2
                engines[window.window_s] += 1
    return {
        window_s: sqrt(squares[window_s] / total.queries)
        for window_s, total in whole.items()
        if engines[window_s] > 1
    }
