"""Charts as inline SVG. Colours come from CSS classes, so that a chart follows the page's light or dark theme."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from math import ceil, floor, log10

__all__ = ["Band", "Line", "Mark", "Strip", "distribution_chart", "log_chart", "time_chart"]

Point = tuple[float, float | None]

LEFT, RIGHT, TOP, BOTTOM = 46.0, 12.0, 24.0, 26.0
STRIP_HEIGHT, STRIP_GAP = 16.0, 8.0
LABEL_WIDTH = 6.4


@dataclass(frozen=True, slots=True)
class Line:
    """A named line; a point without value breaks it. ``step`` holds a value until the next point."""

    name: str
    css: str
    points: Sequence[Point]
    step: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """A marked stretch of time, drawn behind the lines."""

    from_x: float
    to_x: float
    label: str
    css: str = "fault"


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked place on the x axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Strip:
    """Stretches of named states, drawn below the lines; each is (from, to, name)."""

    stretches: Sequence[tuple[float, float, str]]


@dataclass(frozen=True, slots=True)
class _Frame:
    width: float
    height: float
    x_from: float
    x_to: float
    y_from: float
    y_to: float
    below: float

    def x(self, value: float) -> float:
        share = (value - self.x_from) / (self.x_to - self.x_from or 1.0)
        return LEFT + min(max(share, 0.0), 1.0) * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.y_from) / (self.y_to - self.y_from or 1.0)
        return self.bottom - min(max(share, 0.0), 1.0) * (self.bottom - TOP)

    @property
    def bottom(self) -> float:
        return self.height - BOTTOM - self.below


def time_chart(
    lines: Sequence[Line],
    *,
    title: str,
    width: float,
    height: float,
    x_range: tuple[float, float],
    y_max: float,
    y_label: Callable[[float], str],
    bands: Sequence[Band] = (),
    strip: Strip | None = None,
) -> str:
    """Lines over time in seconds since the start; ``title`` is read out by screen readers."""
    below = STRIP_HEIGHT + STRIP_GAP if strip else 0.0
    frame = _Frame(width, height, *x_range, 0.0, y_max, below)
    parts = [_bands(frame, bands), _grid(frame, y_label), _time_axis(frame)]
    parts += [_path(frame, line) for line in lines]
    if strip:
        parts.append(_strip(frame, strip))
    values = {
        "x": x_range,
        "left": LEFT,
        "right": RIGHT,
        "lines": [{"name": line.name, "css": line.css, "points": _thin(line.points)} for line in lines],
        "strip": [list(stretch) for stretch in strip.stretches] if strip else [],
    }
    return _svg(frame, title, "".join(parts), values)


def distribution_chart(
    samples: Sequence[tuple[str, str, Sequence[float]]],
    *,
    title: str,
    width: float,
    height: float,
    x_label: Callable[[float], str],
) -> str:
    """Cumulative distributions of (name, css, values), the x axis logarithmic; values must be positive."""
    everything = [value for _, _, values in samples for value in values]
    ticks = _log_ticks(min(everything), max(everything))
    frame = _Frame(width, height, log10(ticks[0]), log10(ticks[-1]), 0.0, 1.0, 0.0)
    parts = [_grid(frame, lambda share: f"{share:.0%}"), _log_axis(frame, ticks, x_label)]
    for name, css, values in samples:
        ordered = sorted(values)
        points: list[Point] = [(log10(value), (rank + 1) / len(ordered)) for rank, value in enumerate(ordered)]
        parts.append(_path(frame, Line(name, css, [(points[0][0], 0.0), *points], step=True)))
    return _svg(frame, title, "".join(parts), None)


def log_chart(
    lines: Sequence[Line],
    *,
    title: str,
    width: float,
    height: float,
    y_max: float,
    x_label: Callable[[float], str],
    y_label: Callable[[float], str],
    marks: Sequence[Mark] = (),
) -> str:
    """Lines over a logarithmic x axis, with marked places; x must be positive, a mark outside is at the edge."""
    everything = [x for line in lines for x, _ in line.points]
    ticks = _log_ticks(min(everything), max(everything))
    frame = _Frame(width, height, log10(ticks[0]), log10(ticks[-1]), 0.0, y_max, 0.0)
    room = (width - LEFT - RIGHT) / 56
    shown = ticks if len(ticks) <= room else [tick for tick in ticks if f"{tick:e}".startswith("1.")]
    parts = [_grid(frame, y_label), _log_axis(frame, shown, x_label)]
    parts += [_mark(frame, mark) for mark in marks]
    parts += [_path(frame, Line(line.name, line.css, [(log10(x), y) for x, y in line.points])) for line in lines]
    return _svg(frame, title, "".join(parts), None)


def _mark(frame: _Frame, mark: Mark) -> str:
    at = frame.x(log10(mark.x))
    anchor = "end" if at > frame.width / 2 else "start"
    return (
        f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{frame.bottom:.1f}"/>'
        f'<text class="mark-label" x="{at:.1f}" y="{TOP - 8}" text-anchor="{anchor}">{escape(mark.label)}</text>'
    )


def _log_axis(frame: _Frame, ticks: Sequence[float], label: Callable[[float], str]) -> str:
    parts = []
    for tick in ticks:
        at, below = frame.x(log10(tick)), frame.bottom + 16
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{frame.bottom:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{at:.1f}" y="{below:.1f}" text-anchor="middle">{escape(label(tick))}</text>'
        )
    return "".join(parts)


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … from the last one at or below ``low`` to the first one at or above ``high``."""
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 2)
    marks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    first = max(index for index, mark in enumerate(marks) if mark <= low)
    last = min(index for index, mark in enumerate(marks) if mark >= high and index > first)
    return marks[first : last + 1]


def _svg(frame: _Frame, title: str, body: str, values: object | None) -> str:
    data = f" data-chart='{escape(json.dumps(values, separators=(',', ':')), quote=True)}'" if values else ""
    return (
        f'<svg class="chart" viewBox="0 0 {frame.width:g} {frame.height:g}" role="img" '
        f'aria-label="{escape(title, quote=True)}"{data}>{body}</svg>'
    )


def _grid(frame: _Frame, label: Callable[[float], str]) -> str:
    parts = []
    for quarter in range(5):
        value = frame.y_from + (frame.y_to - frame.y_from) * quarter / 4
        at = frame.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{frame.width - RIGHT:g}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{escape(label(value))}</text>'
        )
    return "".join(parts)


def _time_axis(frame: _Frame) -> str:
    span = frame.x_to - frame.x_from
    room = (frame.width - LEFT - RIGHT) / 56
    step = next((s for s in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600) if span / s <= room), 7200)
    parts = []
    tick = frame.x_from
    while tick <= frame.x_to + 1e-9:
        at = frame.x(tick)
        minutes, seconds = divmod(round(tick), 60)
        y = frame.height - BOTTOM + 18
        parts.append(
            f'<text class="tick" x="{at:.1f}" y="{y:.1f}" text-anchor="middle">{minutes}:{seconds:02d}</text>'
        )
        tick += step
    return "".join(parts)


def _bands(frame: _Frame, bands: Sequence[Band]) -> str:
    parts = []
    for number, band in enumerate(bands, start=1):
        left, right = frame.x(band.from_x), frame.x(band.to_x)
        following = frame.x(bands[number].from_x) if number < len(bands) else frame.width - RIGHT
        label = f"{number} {band.label}" if len(band.label) * LABEL_WIDTH + 14 < following - left else str(number)
        parts.append(
            f'<rect class="{band.css}" x="{left:.1f}" y="{TOP}" width="{max(right - left, 2.0):.1f}" '
            f'height="{frame.bottom - TOP:.1f}"><title>{escape(band.label)}</title></rect>'
            f'<text class="band-label" x="{left:.1f}" y="{TOP - 8}">{escape(label)}</text>'
        )
    return "".join(parts)


def _path(frame: _Frame, line: Line) -> str:
    parts = []
    for empty, run in groupby(line.points, key=lambda point: point[1] is None):
        if empty:
            continue
        points = [(frame.x(x), frame.y(y)) for x, y in run if y is not None]
        if len(points) == 1:
            parts.append(f'<circle class="dot {line.css}" cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="2"/>')
            continue
        drawn = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
        for x, y in points[1:]:
            drawn.append(f"H{x:.1f}V{y:.1f}" if line.step else f"L{x:.1f} {y:.1f}")
        parts.append(f'<path class="line {line.css}" d="{"".join(drawn)}"/>')
    return "".join(parts)


def _strip(frame: _Frame, strip: Strip) -> str:
    parts = []
    top = frame.bottom + STRIP_GAP
    for start, end, name in strip.stretches:
        left, right = frame.x(start), frame.x(end)
        width = max(right - left, 1.0)
        parts.append(
            f'<rect class="state {escape(name)}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{STRIP_HEIGHT}"><title>{escape(name)}</title></rect>'
        )
        if len(name) * LABEL_WIDTH + 6 < right - left:
            parts.append(f'<text class="state-label" x="{left + 4:.1f}" y="{top + 12:.1f}">{escape(name)}</text>')
    return "".join(parts)


def _thin(points: Sequence[Point]) -> list[tuple[float, float | None]]:
    return [(round(x, 2), None if y is None else round(y, 4)) for x, y in points]
