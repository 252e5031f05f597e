"""The page a person sees at ``/``: every engine with its state, the unhealthy ones first. Needs no network."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

from hitcurve import __version__
from hitcurve.reading import UNHEALTHY_STATES, Reading
from hitcurve_exporter.configuration.durations import format_duration
from hitcurve_exporter.fleet import Fleet, fleet_of
from hitcurve_exporter.scraping.watched_target import WatchedTarget

__all__ = ["landing_page"]

MOST_ROWS: Final = 500
_NONE: Final = '<span class="none" title="no value">–</span>'


def landing_page(targets: Sequence[WatchedTarget], interval_s: float, now_s: float) -> str:
    """HTML; refreshes itself every interval, at least every five seconds."""
    template = Template(files("hitcurve_exporter.web").joinpath("landing_page.html").read_text(encoding="utf-8"))
    readings = [reading for target in targets for reading in target.readings]
    fleet = fleet_of(readings)
    lengths = [window.window_s for window in fleet.windows]
    rows = sorted(row for target in targets for row in _rows(target, lengths, now_s))
    shown = "\n".join(html for _, html in rows[:MOST_ROWS])
    left_out = len(rows) - MOST_ROWS
    return template.substitute(
        version=escape(__version__),
        refresh_s=f"{max(5.0, interval_s):.0f}",
        interval=format_duration(interval_s),
        targets="1 target" if len(targets) == 1 else f"{len(targets)} targets",
        tiles=_tiles(fleet),
        window_columns=max(1, len(lengths)),
        window_heads="".join(f"<th>{format_duration(length)}</th>" for length in lengths) or "<th></th>",
        rows=shown,
        rest=f"<p>{left_out} more engines are in /api/v1/engines.</p>" if left_out > 0 else "",
    )


def _tiles(fleet: Fleet) -> str:
    tiles = [("engines up", f"{fleet.engines_up}<small> of {fleet.engines}</small>")]
    for window in fleet.windows:
        tiles.append((f"fleet hit rate, {format_duration(window.window_s)}", _percent(window.hit_rate)))
    return "\n".join(f'<div class="tile"><b>{value}</b><span>{label}</span></div>' for label, value in tiles)


def _rows(target: WatchedTarget, lengths: Sequence[float], now_s: float) -> list[tuple[tuple[int, str, str], str]]:
    """Rank and HTML of every engine, or of the target where no engine is known of it."""
    known = [reading for reading in target.readings if reading.up or reading.engine]
    return [_engine_row(target, reading, lengths, now_s) for reading in known] or [
        _empty_row(target, 5 + max(1, len(lengths)))
    ]


def _engine_row(
    target: WatchedTarget, reading: Reading, lengths: Sequence[float], now_s: float
) -> tuple[tuple[int, str, str], str]:
    state = "down" if not reading.up else reading.state.state if reading.state else "unknown"
    rank = 0 if state == "down" else 1 if state in UNHEALTHY_STATES else 2
    curve = reading.state if reading.up else None
    reason = reading.failure if not reading.up else curve.cause if curve else None
    cause = f"<br><small>{escape(reason)}</small>" if reason else ""
    since = _ago(now_s - curve.since_s) if curve else _NONE
    rates = {window.window_s: window.hit_rate for window in reading.windows}
    identity = " · ".join(filter(None, (reading.engine, reading.labels.get("model_name"))))
    cells = [
        f"<td>{_name(target)}<br><small>{escape(identity)}</small></td>",
        f'<td><span class="state {state}">{state}</span>{cause}</td>',
        f"<td>{since}</td>",
        *(f"<td>{_percent(rates.get(length))}</td>" for length in lengths or [0.0]),
        f"<td>{_percent(reading.request_window.hit_rate if reading.request_window else None)}</td>",
        f"<td>{_percent(reading.cumulative_hit_rate)}</td>",
        f"<td>{_percent(reading.kv_usage)}</td>",
        f"<td>{reading.restarts_total} / {reading.resets_total}</td>",
    ]
    return (rank, target.config.name, reading.engine), f"<tr>{''.join(cells)}</tr>"


def _empty_row(target: WatchedTarget, columns: int) -> tuple[tuple[int, str, str], str]:
    """A target that no engine is known of."""
    if target.last is None:
        state, why = "waiting", "not scraped yet"
    elif target.up:
        state, why = "unknown", "its page shows no engine"
    else:
        state, why = "down", target.last.detail
    cells = f'<td>{_name(target)}</td><td><span class="state {state}">{state}</span></td>'
    return (0, target.config.name, ""), f'<tr>{cells}<td colspan="{columns}">{escape(why)}</td></tr>'


def _name(target: WatchedTarget) -> str:
    return f'<strong title="{escape(target.config.url)}">{escape(target.config.name)}</strong>'


def _percent(ratio: float | None) -> str:
    return _NONE if ratio is None else f"{100 * ratio:.1f} %"


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
