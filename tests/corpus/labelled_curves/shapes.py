"""Rates over time: levels, climbs, steps, swings."""

from collections.abc import Sequence

import numpy as np

from labelled_curves.traffic import Floats, Shape, always

__all__ = ["climb", "daily", "pieces", "sawtooth", "square"]


def pieces(*parts: tuple[float, float | Shape]) -> Shape:
    """A shape made of pieces, each a number or a shape, from a moment on."""
    starts = np.array([from_s for from_s, _ in parts])
    shapes: Sequence[Shape] = [part if callable(part) else always(float(part)) for _, part in parts]

    def value(t: Floats) -> Floats:
        which = np.searchsorted(starts, t, side="right") - 1
        return np.select([which == index for index in range(len(shapes))], [shape(t) for shape in shapes], 0.0)

    return value


def climb(level: float, tau_s: float, from_s: float = 0.0, low: float = 0.0) -> Shape:
    """From ``low`` towards ``level`` with the time constant ``tau_s``, from ``from_s`` on."""
    return lambda t: level - (level - low) * np.exp(-np.maximum(t - from_s, 0.0) / tau_s)


def square(high: float, low: float, period_s: float, from_s: float) -> Shape:
    """Down for the first half of each period, up for the second."""
    return lambda t: np.where((t - from_s) % period_s < period_s / 2, low, high)


def sawtooth(high: float, low: float, period_s: float, from_s: float) -> Shape:
    """Cleared at the start of each period, then climbing back: what eviction of a whole working set looks like."""
    return lambda t: high - (high - low) * np.exp(-((t - from_s) % period_s) / (period_s / 4))


def daily(level: float, swing: float, phase_s: float) -> Shape:
    """A level that moves with the time of day."""
    return lambda t: level + swing * np.sin((t + phase_s) * 2 * np.pi / 86_400.0)
