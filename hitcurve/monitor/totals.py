"""Totals over several engines or targets: ratio of sums, never mean of ratios."""

from collections.abc import Iterable, Sequence

from hitcurve import flags
from hitcurve.counters import hit_rate
from hitcurve.reading import Interval, Reading, ServedRate, WindowRate

__all__ = ["total_interval", "total_windows"]


def total_interval(intervals: Iterable[Interval]) -> Interval | None:
    """One interval for several engines; ``None`` for none.

    It spans from the first start to the last end. Where an engine's volumes are unknown the total's are too.
    """
    parts = list(intervals)
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    queries, hits = _sum(part.queries for part in parts), _sum(part.hits for part in parts)
    return Interval(
        from_s=min(part.from_s for part in parts),
        to_s=max(part.to_s for part in parts),
        queries=queries,
        hits=hits,
        hit_rate=None if queries is None or hits is None else hit_rate(queries, hits),
        source_unit="blocks" if any(part.source_unit == "blocks" for part in parts) else "tokens",
        requests=_sum(part.requests for part in parts),
        restarts=sum(part.restarts for part in parts),
        flags=_flags(parts, queries, hits),
        served=_served(parts),
        tiers=_tiers(parts, queries),
    )


def total_windows(readings: Iterable[Reading]) -> tuple[WindowRate, ...]:
    """Rates of a fleet by window length, from the latest reading of each engine that is up."""
    sums: dict[float, tuple[float, float]] = {}
    for reading in readings:
        for window in reading.windows:
            queries, hits = sums.get(window.window_s, (0.0, 0.0))
            sums[window.window_s] = (queries + window.queries, hits + window.hits)
    return tuple(
        WindowRate(window_s, queries, hits, hit_rate(queries, hits))
        for window_s, (queries, hits) in sorted(sums.items())
    )


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _flags(parts: Sequence[Interval], queries: float | None, hits: float | None) -> tuple[str, ...]:
    found = dict.fromkeys(flag for part in parts for flag in part.flags)
    if queries is not None and hits is not None and hits > queries:
        found[flags.HITS_EXCEED_QUERIES] = None
    return tuple(found)


def _served(parts: Sequence[Interval]) -> ServedRate | None:
    served = [part.served for part in parts if part.served is not None]
    if len(served) < len(parts):
        return None
    prompt, cached = sum(one.prompt_tokens for one in served), sum(one.cached_tokens for one in served)
    return ServedRate(prompt, cached, hit_rate(prompt, cached))


def _tiers(parts: Sequence[Interval], queries: float | None) -> dict[str, float] | None:
    if not queries:
        return None
    tokens: dict[str, float] = {}
    for part in parts:
        if part.queries == 0:
            continue
        if part.tiers is None or part.queries is None:
            return None
        for tier, share in part.tiers.items():
            tokens[tier] = tokens.get(tier, 0.0) + share * part.queries
    return {tier: value / queries for tier, value in tokens.items()}
