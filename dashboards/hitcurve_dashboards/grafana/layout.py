"""Places panels on Grafana's grid of 24 columns, from left to right, line after line."""

from collections.abc import Sequence
from dataclasses import dataclass

from hitcurve_dashboards.grafana.records import Panel

__all__ = ["COLUMNS", "Place", "placed"]

COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Place:
    """A rectangle in grid units."""

    x: int
    y: int
    width: int
    height: int


def placed(panels: Sequence[Panel], y: int) -> list[Place]:
    """A place for each panel; the first line begins at ``y``, a line is as high as its highest panel."""
    places: list[Place] = []
    x, line_height = 0, 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y, line_height = 0, y + line_height, 0
        places.append(Place(x, y, panel.width, panel.height))
        x += panel.width
        line_height = max(line_height, panel.height)
    return places
