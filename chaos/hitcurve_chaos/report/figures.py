"""What the report shows, taken from the records of a run: series, fault windows, the numbers of each figure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from hitcurve.charts import Band, Line, Strip
from hitcurve.reading import Reading
from hitcurve_chaos.report.run_folder import RequestRow, RunFolder

__all__ = ["Curve", "Drop", "Latency", "curves", "drops", "fault_bands", "latency", "percentile", "time_range"]

HIT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Curve:
    """The series of one engine, x in seconds since the start of the run."""

    target: str
    engine: str
    rate_based: Line
    rate_window_s: float
    request_window: Line
    request_window_size: int
    cumulative: Line
    kv_usage: Line
    evicted_per_s: Line
    preemptions: float | None
    evicted_blocks: float | None
    states: Strip
    last_state: str


@dataclass(frozen=True, slots=True)
class Drop:
    """How one of the hit rates took a fault: its value before, its lowest value and how long until then."""

    name: str
    css: str
    before: float | None
    lowest: float | None
    seconds_to_lowest: float | None


@dataclass(frozen=True, slots=True)
class Latency:
    """TTFT in seconds of requests that hit (at least half of the prompt was cached) and of those that did not."""

    hits: Sequence[float]
    misses: Sequence[float]
    unknown: int
    """Finished requests whose cached tokens or TTFT are unknown."""


def time_range(run: RunFolder) -> tuple[float, float]:
    """First and last moment of the run, Unix seconds."""
    times = [reading.at_s for readings in run.readings.values() for reading in readings]
    times += [row.at_s for row in run.requests]
    if not times:
        start = float(run.run.get("started_at_s") or 0.0)
        return start, start + 1.0
    return min(times), max(max(times), min(times) + 1.0)


def fault_bands(run: RunFolder, start_s: float) -> list[Band]:
    """The stretch of each injected fault."""
    return [
        Band(verdict["fault_from_s"] - start_s, (verdict["fault_to_s"] or verdict["fault_from_s"]) - start_s, name)
        for verdict in run.verdicts
        if verdict.get("fault_from_s") is not None
        for name in [str(verdict["scenario"])]
    ]


def curves(run: RunFolder, start_s: float) -> list[Curve]:
    """One per engine that was read, in order of target and engine."""
    return [
        _curve(target, engine, readings, start_s)
        for (target, engine), readings in sorted(run.readings.items())
        if any(reading.up for reading in readings)
    ]


def drops(curve: Curve, from_s: float, until_s: float) -> list[Drop]:
    """The three hit rates around a fault; times in seconds since the start of the run."""
    return [_drop(line, from_s, until_s) for line in (curve.rate_based, curve.request_window, curve.cumulative)]


def latency(requests: Sequence[RequestRow]) -> Latency:
    """TTFT of finished requests, apart for hits and misses."""
    hits, misses, unknown = [], [], 0
    for row in requests:
        if row.outcome != "ok":
            continue
        if row.ttft_s is None or row.ttft_s <= 0 or row.cached_tokens is None or not row.prompt_tokens:
            unknown += 1
        elif row.cached_tokens >= HIT_SHARE * row.prompt_tokens:
            hits.append(row.ttft_s)
        else:
            misses.append(row.ttft_s)
    return Latency(hits, misses, unknown)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Nearest-rank percentile; ``None`` of nothing."""
    if not values:
        return None
    return sorted(values)[max(ceil(share * len(values)), 1) - 1]


def _curve(target: str, engine: str, readings: Sequence[Reading], start_s: float) -> Curve:
    window_s = min((window.window_s for reading in readings for window in reading.windows), default=0.0)

    def windowed(reading: Reading) -> float | None:
        return next((w.hit_rate for w in reading.windows if w.window_s == window_s), None)

    times = [reading.at_s - start_s for reading in readings]
    requests = [reading.request_window for reading in readings]
    last = readings[-1]
    return Curve(
        target=target,
        engine=engine,
        rate_based=Line("rate-based", "rate", list(zip(times, map(windowed, readings), strict=True))),
        rate_window_s=window_s,
        request_window=Line(
            "request-window",
            "requests",
            [(t, r.hit_rate if r else None) for t, r in zip(times, requests, strict=True)],
        ),
        request_window_size=next((r.max_requests for r in requests if r), 0),
        cumulative=Line(
            "cumulative", "cumulative", [(t, r.cumulative_hit_rate) for t, r in zip(times, readings, strict=True)]
        ),
        kv_usage=Line(
            "KV usage", "usage", [(t, r.kv_usage) for t, r in zip(times, readings, strict=True)], step=True
        ),
        evicted_per_s=Line("evicted blocks/s", "evictions", _per_second(readings, start_s), step=True),
        preemptions=last.preemptions_total,
        evicted_blocks=last.evicted_blocks_total,
        states=_states(readings, start_s),
        last_state=last.state.state if last.state else "no_traffic",
    )


def _drop(line: Line, from_s: float, until_s: float) -> Drop:
    known = [(x, y) for x, y in line.points if y is not None]
    before = next((y for x, y in reversed(known) if x <= from_s), None)
    after = [(y, x) for x, y in known if from_s < x <= until_s]
    lowest, at = min(after, default=(None, None))
    return Drop(line.name, line.css, before, lowest, None if at is None else at - from_s)


def _per_second(readings: Sequence[Reading], start_s: float) -> list[tuple[float, float | None]]:
    points: list[tuple[float, float | None]] = []
    for before, after in pairwise(readings):
        elapsed = after.at_s - before.at_s
        known = before.evicted_blocks_total is not None and after.evicted_blocks_total is not None
        rise = (after.evicted_blocks_total or 0.0) - (before.evicted_blocks_total or 0.0)
        points.append((after.at_s - start_s, max(rise, 0.0) / elapsed if known and elapsed > 0 else None))
    return points


def _states(readings: Sequence[Reading], start_s: float) -> Strip:
    stretches: list[tuple[float, float, str]] = []
    for reading, following in zip(readings, [*readings[1:], readings[-1]], strict=True):
        name = reading.state.state if reading.state else "unknown"
        start, end = reading.at_s - start_s, following.at_s - start_s
        if stretches and stretches[-1][2] == name:
            stretches[-1] = (stretches[-1][0], end, name)
        else:
            stretches.append((start, end, name))
    return Strip(stretches)
