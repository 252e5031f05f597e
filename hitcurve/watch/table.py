"""A round as text: the cells that the live view and ``--once`` share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from rich.table import Table
from rich.text import Text

from hitcurve import rate_text
from hitcurve.printable import printable
from hitcurve.reading import StateName
from hitcurve.replay.sparkline import sparkline
from hitcurve.watch.replica import Replica, Round, unhealthy

__all__ = [
    "COLUMNS",
    "NO_VALUE",
    "STATE_STYLES",
    "Column",
    "as_table",
    "columns_for",
    "percent",
    "seconds",
    "short_number",
    "state_text",
]

NO_VALUE: Final = "–"
_GAP: Final = 2
_LEAST_CURVE: Final = 10
_MOST_CURVE: Final = 40
_MOST_OF_NAMES: Final = 0.4
"""Share of the width up to which names stay on one line."""
_NARROW: Final = 80
"""Columns that the live view is made for; in fewer ``--once`` folds what it must."""

STATE_STYLES: Final[dict[StateName, str]] = {
    "no_traffic": "dim",
    "cold": "cyan",
    "warming": "cyan",
    "steady": "green",
    "low": "yellow",
    "degraded": "yellow",
    "collapsed": "bold red",
    "oscillating": "bold magenta",
    "stalled": "bold red",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``order`` sorts by it (unhealthy or largest first), ``least_width`` is the screen it needs."""

    title: str
    width: int
    cell: Callable[[Replica], Text]
    order: Callable[[Replica], tuple[float | str, ...]]
    side: Literal["left", "right"] = "right"
    keeps: Literal["start", "end"] = "start"
    """Which part of a text that is too long is shown."""
    least_width: int = 0


def percent(rate: float | None) -> str:
    """A share of one as ``97.3%``; no value is a dash."""
    return rate_text.percent(rate, 1, none=NO_VALUE)


def short_number(value: float | None) -> str:
    """Four characters or so: ``950``, ``1.2k``, ``34k``, ``5.6M``."""
    if value is None:
        return NO_VALUE
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}"


def seconds(value: float | None) -> str:
    """``85ms``, ``1.2s``, ``34s``."""
    if value is None:
        return NO_VALUE
    return f"{1000 * value:.0f}ms" if value < 1 else f"{value:.1f}s" if value < 10 else f"{value:.0f}s"


def state_text(replica: Replica) -> Text:
    """State and cause in the state's colour; ``down`` and why where the replica does not answer."""
    reading = replica.reading
    if not reading.up:
        return Text(printable(f"down: {reading.failure or 'no answer'}"), style="bold red")
    if reading.state is None:
        return Text("unknown", style="dim")
    cause = f" ({reading.state.cause})" if reading.state.cause else ""
    return Text(reading.state.state + cause, style=STATE_STYLES[reading.state.state])


def _short_state(replica: Replica) -> Text:
    """The same without what stands in parentheses behind a failure; the replica's own page has all of it."""
    text = state_text(replica)
    return text if replica.reading.up else Text(text.plain.partition(" (")[0], style=text.style)


def _number(value: Callable[[Replica], float | None], shown: Callable[[float | None], str]) -> Callable[..., Text]:
    return lambda replica: Text(shown(value(replica)))


def _largest(value: Callable[[Replica], float | None]) -> Callable[[Replica], tuple[float | str, ...]]:
    def order(replica: Replica) -> tuple[float | str, ...]:
        found = value(replica)
        return (1.0, 0.0, replica.name) if found is None else (0.0, -found, replica.name)

    return order


def _smallest(value: Callable[[Replica], float | None]) -> Callable[[Replica], tuple[float | str, ...]]:
    def order(replica: Replica) -> tuple[float | str, ...]:
        found = value(replica)
        return (1.0, 0.0, replica.name) if found is None else (0.0, found, replica.name)

    return order


def _column(
    title: str,
    width: int,
    value: Callable[[Replica], float | None],
    shown: Callable[[float | None], str],
    *,
    smallest: bool = False,
    least_width: int = 0,
) -> Column:
    order = _smallest(value) if smallest else _largest(value)
    return Column(title, width, _number(value, shown), order, least_width=least_width)


def _adapters(replica: Replica) -> Text:
    return Text(printable(", ".join(replica.reading.running_adapters)) or NO_VALUE)


COLUMNS: Final = (
    Column("replica", 15, lambda one: Text(one.name), lambda one: (one.name,), "left", "end"),
    Column("state", 27, _short_state, lambda one: (not unhealthy(one.reading), state_text(one).plain), "left"),
    _column("now", 6, lambda one: one.hit_rate, percent, smallest=True),
    _column("last N", 7, lambda one: one.request_window_hit_rate, percent, smallest=True, least_width=70),
    _column("start", 6, lambda one: one.reading.cumulative_hit_rate, percent, smallest=True, least_width=60),
    _column("pool", 6, lambda one: one.reading.kv_usage, percent, least_width=88),
    _column("tok/s", 5, lambda one: one.query_tokens_per_s, short_number, least_width=95),
    _column("ttft", 6, lambda one: one.reading.mean_ttft_s, seconds, least_width=103),
    _column("wait", 4, lambda one: one.reading.waiting, short_number, least_width=109),
    _column("evict/s", 7, lambda one: one.evictions_per_s, short_number, least_width=118),
    Column("adapters", 16, _adapters, lambda one: (_adapters(one).plain,), "left", least_width=136),
)
"""The curve, last on the screen, takes what width is left."""


def columns_for(width: int, names: Iterable[str] = ()) -> tuple[Column, ...]:
    """The columns a screen of ``width`` characters has room for, the first as wide as ``names`` need and allow."""
    name, *others = (column for column in COLUMNS if column.least_width <= width)
    needed = max(map(len, names), default=0)
    room = width - sum(column.width + _GAP for column in others) - _GAP - _LEAST_CURVE
    return (replace(name, width=max(name.width, min(needed, room))), *others)


def as_table(round_: Round, width: int) -> Table:
    """A round for ``--once``; the curve gets what width is left, and the state gives way where there is none."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    columns = columns_for(width)
    rows = [[column.cell(replica) for column in columns] for replica in round_.replicas]
    used = [max([len(column.title), *(row[at].cell_len for row in rows)]) for at, column in enumerate(columns)]
    room = max(width - sum(used) - _GAP * len(columns), _LEAST_CURVE)
    for column, widest in zip(columns, used, strict=True):
        folds = column.title == "state" or (column.title == "replica" and widest > width * _MOST_OF_NAMES)
        table.add_column(
            column.title,
            justify=column.side,
            overflow="fold",
            no_wrap=not folds,
            min_width=min(widest, column.width) if folds and width >= _NARROW else None,
        )
    if any(replica.curve for replica in round_.replicas):
        table.add_column("curve, 0 to 1", justify="left", no_wrap=True, overflow="crop")
    for replica, row in zip(round_.replicas, rows, strict=True):
        curve = [Text(sparkline(replica.curve, min(room, _MOST_CURVE)))] if replica.curve else []
        table.add_row(*row, *curve)
    return table
