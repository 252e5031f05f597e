"""All engines together, those of each model, those behind each address: ratio of sums, never mean of ratios."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt

from hitcurve.counters import hit_rate
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
    spreads = {window.window_s: _spread(window, up) for window in windows}
    return ModelFleet(
        len(readings),
        len(up),
        windows,
        {length: spread for length, spread in spreads.items() if spread is not None},
    )


def _spread(total: WindowRate, readings: Iterable[Reading]) -> float | None:
    parts = [
        window
        for reading in readings
        for window in reading.windows
        if window.window_s == total.window_s and window.queries > 0
    ]
    whole = hit_rate(total.queries, total.hits)
    if len(parts) < 2 or whole is None:
        return None
    squares = sum(part.queries * ((part.hit_rate or 0.0) - whole) ** 2 for part in parts)
    return sqrt(squares / total.queries)
