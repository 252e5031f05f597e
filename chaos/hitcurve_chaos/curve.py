"""The curve of a target as the frame sees it: one point for every scrape, over all engines of the target."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from hitcurve.reading import CurveState, Reading, StateName
from hitcurve_chaos.verdict import StateChange

__all__ = ["Curve", "CurvePoint", "point_of"]

_WORST_FIRST: tuple[StateName, ...] = (
    "stalled",
    "collapsed",
    "low",
    "oscillating",
    "degraded",
    "cold",
    "warming",
    "steady",
    "no_traffic",
)
_THIN_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One scrape of a target. Volumes in tokens; sums over its engines, rates as ratio of sums.

    Where the target has several engines (ranks), ``state`` is the worst of those that have traffic.
    """

    at_s: float
    up: bool
    failure: str | None
    state: StateName | None
    cause: str | None
    queries: float | None
    """Of the interval since the scrape before."""
    hits: float | None
    from_s: float | None
    rate: float | None
    """Rate-based hit rate over the shortest window the readings have."""
    request_window_rate: float | None
    request_window_lag_s: float | None
    cumulative_rate: float | None
    query_tokens_total: float
    kv_usage: float | None
    preemptions: float | None
    evicted_blocks: float | None
    restarts: int
    block_size: int | None
    capacity_tokens: int | None

    @property
    def interval_rate(self) -> float | None:
        """Hits / queries of the interval; ``None`` where nothing was looked up."""
        if not self.queries or self.hits is None:
            return None
        return self.hits / self.queries


def point_of(readings: Sequence[Reading]) -> CurvePoint:
    """The point of the readings that one look at a target brought; at least one."""
    up = [reading for reading in readings if reading.up]
    intervals = [reading.interval for reading in up if reading.interval is not None]
    state = _worst([reading.state for reading in up if reading.state is not None])
    windows = [reading.request_window for reading in up if reading.request_window is not None]
    return CurvePoint(
        at_s=max(reading.at_s for reading in readings),
        up=bool(up),
        failure=next((reading.failure for reading in readings if reading.failure), None),
        state=state.state if state else None,
        cause=state.cause if state else None,
        queries=_sum(interval.queries for interval in intervals),
        hits=_sum(interval.hits for interval in intervals),
        from_s=min((interval.from_s for interval in intervals), default=None),
        rate=_window_rate(up),
        request_window_rate=_weighted([(window.hit_rate, window.requests) for window in windows]),
        request_window_lag_s=max((w.lag_s for w in windows if w.lag_s is not None), default=None),
        cumulative_rate=_weighted([(r.cumulative_hit_rate, r.query_tokens_total or 1.0) for r in up]),
        query_tokens_total=sum(reading.query_tokens_total for reading in readings),
        kv_usage=max((r.kv_usage for r in up if r.kv_usage is not None), default=None),
        preemptions=_sum(reading.preemptions_total for reading in up),
        evicted_blocks=_sum(reading.evicted_blocks_total for reading in up),
        restarts=sum(reading.restarts_total for reading in readings),
        block_size=next((r.block_size for r in up if r.block_size), None),
        capacity_tokens=_whole(_sum(reading.capacity_tokens for reading in up)),
    )


class Curve:
    """All points so far, in order of time, and what can be said about spans of it."""

    def __init__(self) -> None:
        self.points: list[CurvePoint] = []

    def add(self, point: CurvePoint) -> None:
        self.points.append(point)

    @property
    def last(self) -> CurvePoint | None:
        return self.points[-1] if self.points else None

    def between(self, from_s: float, to_s: float) -> list[CurvePoint]:
        """Points after ``from_s`` up to ``to_s``."""
        return [point for point in self.points if from_s < point.at_s <= to_s]

    def rate(self, from_s: float, to_s: float) -> float | None:
        """Hits / queries of the intervals that ended in the span; ``None`` without traffic."""
        spans = self.between(from_s, to_s)
        queries = _sum(point.queries for point in spans)
        hits = _sum(point.hits for point in spans)
        return hits / queries if queries and hits is not None else None

    def lowest(self, from_s: float, to_s: float, *, usual_queries: float | None = None) -> CurvePoint | None:
        """The interval with the lowest hit rate, leaving out those with far less traffic than usual."""
        thin = _THIN_SHARE * usual_queries if usual_queries else 0.0
        judged = [point for point in self.between(from_s, to_s) if (point.queries or 0.0) > thin]
        return min(judged, key=lambda point: point.interval_rate or 0.0, default=None)

    def usual_queries(self, from_s: float, to_s: float) -> float | None:
        """Median query tokens of an interval of the span."""
        volumes = [point.queries for point in self.between(from_s, to_s) if point.queries]
        return median(volumes) if volumes else None

    def steady_for_s(self) -> float:
        """How long the curve has been steady without a break, from scrape to scrape, up to the last one."""
        since = None
        for point in reversed(self.points):
            if point.state != "steady":
                break
            since = point.at_s
        return 0.0 if since is None else self.points[-1].at_s - since

    def transitions(self, from_s: float, to_s: float) -> list[StateChange]:
        """The state at the begin of the span and every change in it."""
        changes: list[StateChange] = []
        for point in self.points:
            if point.state is None or point.at_s > to_s:
                continue
            change = StateChange(point.at_s, point.state, point.cause)
            if point.at_s <= from_s:
                changes = [change]
            elif not changes or (changes[-1].state, changes[-1].cause) != (change.state, change.cause):
                changes.append(change)
        return changes


def _worst(states: Sequence[CurveState]) -> CurveState | None:
    return min(states, key=lambda state: _WORST_FIRST.index(state.state), default=None)


def _window_rate(readings: Sequence[Reading]) -> float | None:
    shortest = [min(r.windows, key=lambda window: window.window_s) for r in readings if r.windows]
    if shortest:
        queries = sum(window.queries for window in shortest)
        return sum(window.hits for window in shortest) / queries if queries else None
    intervals = [reading.interval for reading in readings if reading.interval]
    queries = _sum(interval.queries for interval in intervals) or 0.0
    return (_sum(interval.hits for interval in intervals) or 0.0) / queries if queries else None


def _weighted(pairs: Sequence[tuple[float | None, float]]) -> float | None:
    known = [(rate, weight) for rate, weight in pairs if rate is not None and weight]
    total = sum(weight for _, weight in known)
    return sum(rate * weight for rate, weight in known) / total if total else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
