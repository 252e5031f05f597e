"""A replay for people: a table of engines per target, then what happened to it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hitcurve.curve import Episode
from hitcurve.flags import ALL_FLAGS
from hitcurve.monitor import total_interval
from hitcurve.reading import UNHEALTHY_STATES, CurveState, Interval
from hitcurve.replay.history import EngineHistory, TargetHistory
from hitcurve.replay.run import Replay, ReplayedTarget
from hitcurve.replay.sparkline import sparkline

__all__ = ["print_replay"]


_UNIX_TIME_S: Final = 1e9
_NO_VALUE: Final = "no value"
_NUMBERS: Final = ("hit rate", "tokens looked up", "restarts")


def print_replay(replay: Replay, console: Console) -> None:
    """Print each target: its engines, then what happened to them in order of time."""
    for number, (name, target) in enumerate(replay.targets.items()):
        if number:
            console.print()
        console.print(f"[bold]{escape(name)}[/]")
        if target.history.engines:
            console.print(_engines(target))
        else:
            console.print("  [red]no page was readable[/]")
        for at_s, event in _events(target):
            console.print(f"  {_moment(at_s)}  {event}", soft_wrap=True)
    if len(replay.targets) > 1:
        console.print(f"\nall targets: hit rate {_rate(replay.fleet)}, {_volume(replay.fleet)} tokens looked up")


def _engines(target: ReplayedTarget) -> Table:
    table = Table(box=None, pad_edge=True, header_style="dim")
    for column in ("engine", "state", *_NUMBERS, "curve, 0 to 1"):
        table.add_column(column, justify="right" if column in _NUMBERS else "left", overflow="fold")
    for engine, history in target.history.engines.items():
        table.add_row(escape(engine), *_cells(history))
    if len(target.history.engines) > 1:
        table.add_row("all", *_cells(target.history), style="bold")
    return table


def _cells(history: EngineHistory | TargetHistory) -> tuple[str, ...]:
    return (
        _state(history.states.last),
        _rate(history.intervals),
        _volume(history.intervals),
        str(sum(interval.restarts for interval in history.intervals)),
        sparkline(history.intervals),
    )


def _whole(intervals: Sequence[Interval]) -> Interval | None:
    return total_interval(interval for interval in intervals if interval.queries is not None)


def _rate(intervals: Sequence[Interval]) -> str:
    whole = _whole(intervals)
    return _NO_VALUE if whole is None or whole.hit_rate is None else f"{whole.hit_rate:.3f}"


def _volume(intervals: Sequence[Interval]) -> str:
    whole = _whole(intervals)
    return _NO_VALUE if whole is None or whole.queries is None else f"{whole.queries:,.0f}"


def _state(state: CurveState | None) -> str:
    if state is None:
        return "unknown"
    text = state.state if state.cause is None else f"{state.state} ({state.cause})"
    return f"[red]{text}[/]" if state.state in UNHEALTHY_STATES else text


def _events(target: ReplayedTarget) -> list[tuple[float, str]]:
    """What happened, in order of time."""
    history = target.history
    found: list[tuple[float, str]] = [(cut.at_s, cut.kind) for cut in history.cuts if cut.kind != "start"]
    found += _in_short((failed.at_s, f"scrape failed: {escape(failed.reason)}") for failed in history.failed)
    flagged = [(one.to_s, flag) for one in history.intervals for flag in one.flags]
    found += _in_short((at_s, f"{flag}: {ALL_FLAGS[flag]}") for at_s, flag in flagged)
    for name, engine in history.engines.items():
        found += [
            (at_s, f"engine {escape(name)}: {_state(state)}{_rate_now(state)}")
            for at_s, state in engine.states.transitions
        ]
    for name, episodes in target.episodes.items():
        found += [(episode.from_s, f"engine {escape(name)}: {_incident(episode)}") for episode in episodes]
    return sorted(found, key=lambda event: event[0])


def _in_short(events: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
    """Each text once, at its first time, with how often it came and when last."""
    times: dict[str, list[float]] = {}
    for at_s, text in events:
        times.setdefault(text, []).append(at_s)
    return [
        (when[0], text if len(when) == 1 else f"{text} ({len(when):,} times, last {_moment(when[-1])})")
        for text, when in times.items()
    ]


def _rate_now(state: CurveState) -> str:
    rate = state.evidence.get("rate")
    return f", hit rate {rate:.3f}" if isinstance(rate, float) else ""


def _incident(episode: Episode) -> str:
    until = "still going on" if episode.to_s is None else f"until {_moment(episode.to_s)}"
    depth = "" if episode.depth is None else f", {100 * episode.depth:.1f} points deep"
    lost = "" if episode.lost_tokens is None else f", {episode.lost_tokens:,.0f} tokens recomputed"
    return f"incident, cause {episode.cause}, {until}{depth}{lost}"


def _moment(at_s: float) -> str:
    """A Unix time as date and time; a time counted from any other start in seconds."""
    if not _UNIX_TIME_S < at_s < 100 * _UNIX_TIME_S:
        return f"{at_s:g} s"
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
