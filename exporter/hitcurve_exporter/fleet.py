"""All engines together: ratio of sums, never a mean of ratios."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hitcurve.monitor import total_windows
from hitcurve.reading import STATES, Reading, WindowRate

__all__ = ["Fleet", "fleet_of"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """Sums over engines. ``windows`` cover the engines that are up and whose volumes are known in tokens."""

    engines: int
    engines_up: int
    windows: tuple[WindowRate, ...]
    states: dict[str, int]
    """Engines in each curve state, 0 for a state that no engine is in; engines without a state count nowhere."""


def fleet_of(readings: Iterable[Reading]) -> Fleet:
    """The fleet as the newest readings of its engines show it."""
    known = [reading for reading in readings if reading.up or reading.engine]
    up = [reading for reading in known if reading.up]
    states = Counter(dict.fromkeys(STATES, 0))
    states.update(reading.state.state for reading in known if reading.state is not None)
    return Fleet(len(known), len(up), total_windows(up), {str(state): count for state, count in states.items()})
