"""Everything ``watch`` knows of one replica, as text: the screen behind Enter."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from rich.text import Text

from hitcurve.flags import ALL_FLAGS
from hitcurve.printable import printable
from hitcurve.replay.sparkline import sparkline
from hitcurve.watch.replica import Replica
from hitcurve.watch.table import NO_VALUE, percent, seconds, short_number, state_text

__all__ = ["detail"]

_LABEL_WIDTH: Final = 26
_FOUND: Final = {
    "most": "  half or more found",
    "some": "  less than half found",
    "none": "  nothing found",
}


def detail(replica: Replica, width: int) -> Text:
    """State with its evidence, the three hit rates, traffic, pool and what was odd; lines of ``width``."""
    reading = replica.reading
    text = Text.assemble((replica.name, "bold"), "\n", state_text(replica), "\n\n")
    if reading.state is not None:
        text.append(_line("since", _clock(reading.state.since_s)))
        for name, value in reading.state.evidence.items():
            label = name.removesuffix("_s").replace("_", " ")
            text.append(_line(f"  {label}", _evidence(name, value)))
        text.append("\n")
    for label, value in _rates(replica):
        text.append(_line(label, value))
    text.append("\n")
    for label, value in _engine(replica):
        text.append(_line(label, value))
    for cut in reading.cuts:
        text.append(_line(f"cut: {cut.kind}", _clock(cut.at_s)))
    for flag in reading.flags:
        text.append(f"{flag}: {ALL_FLAGS.get(flag, '')}\n", style="yellow")
    if replica.curve:
        text.append(f"\nhit rate of the last {len(replica.curve)} intervals, 0 to 1\n", style="dim")
        text.append(sparkline(replica.curve, max(width - 2, 10)))
    return text


def _rates(replica: Replica) -> Iterator[tuple[str, str]]:
    reading = replica.reading
    for window in reading.windows:
        tokens = f"{short_number(window.hits)} of {short_number(window.queries)} tokens"
        yield f"hit rate, {window.window_s:g} s", f"{percent(window.hit_rate)}  {tokens}"
    window_of_requests = reading.request_window
    if window_of_requests is not None:
        lag = window_of_requests.lag_s
        behind = "" if lag is None else f"  lags by {lag:.0f} s"
        label = f"hit rate, {window_of_requests.max_requests} requests"
        yield label, f"{percent(window_of_requests.hit_rate)}{behind}"
    yield "hit rate, since start", percent(reading.cumulative_hit_rate)


def _engine(replica: Replica) -> Iterator[tuple[str, str]]:
    reading = replica.reading
    yield "tokens looked up per s", short_number(replica.query_tokens_per_s)
    yield "mean time to first token", seconds(reading.mean_ttft_s)
    for found, label in _FOUND.items():
        if found in replica.first_token_s:
            yield label, seconds(replica.first_token_s[found])
    yield "running / waiting", f"{short_number(reading.running)} / {short_number(reading.waiting)}"
    yield "pool in use", percent(reading.kv_usage)
    yield "pool, block size", f"{_tokens(reading.capacity_tokens)}, {_tokens(reading.block_size)}"
    yield "shortest reusable prefix", _tokens(reading.min_reusable_prefix_tokens)
    yield "blocks evicted per s", short_number(replica.evictions_per_s)
    yield "preemptions", short_number(reading.preemptions_total)
    yield "restarts / resets seen", f"{reading.restarts_total} / {reading.resets_total}"
    yield "adapters", printable(", ".join(reading.running_adapters)) or NO_VALUE


def _line(label: str, value: str) -> str:
    return f"{label:<{_LABEL_WIDTH}}{value}\n"


def _tokens(value: int | None) -> str:
    return NO_VALUE if value is None else f"{value:,} tokens"


def _clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def _evidence(name: str, value: float | str | None) -> str:
    """A value as its name asks for it; docs/curve.md says what each is."""
    if value is None or isinstance(value, str):
        return NO_VALUE if value is None else value
    for names, written in _WRITTEN:
        if name in names:
            return written(value)
    return f"{value:.4g}"


_WRITTEN: Final[tuple[tuple[frozenset[str], Callable[[float], str]], ...]] = (
    (frozenset({"rate", "uncertainty", "baseline", "scrape_rate"}), percent),
    (frozenset({"tokens", "requests", "scrape_tokens", "waiting", "turns"}), short_number),
    (frozenset({"silence_s"}), seconds),
    (frozenset({"onset_s"}), _clock),
)
