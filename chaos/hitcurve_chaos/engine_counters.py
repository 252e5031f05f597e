"""What an engine's own page says right now, for scenarios that compare it with what they sent."""

from collections.abc import Iterable
from dataclasses import dataclass

from hitcurve.readers import PageRefused, read_page
from hitcurve_chaos.engine_page import scrape_engine, summed, text_of
from hitcurve_chaos.targets import Target

__all__ = ["EngineCounters", "read_counters"]


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Sums over the engines of one page; tokens where the unit is known. ``None``: the page does not say."""

    queries: float | None
    hits: float | None
    preemptions: float | None
    evictions: float | None
    resets: float | None
    running: float | None
    waiting: float | None
    kv_usage: float | None
    block_size: int | None
    capacity_tokens: int | None
    start_time_s: float | None
    resident_bytes: float | None = None
    """Memory of the server's process, where its page says it."""
    adapter_slots: int | None = None
    """How many LoRA adapters one engine can have in a batch."""


def read_counters(target: Target, engine: str | None = None) -> EngineCounters | None:
    """One fresh reading of /metrics; ``None`` where it cannot be had or read."""
    page = scrape_engine(engine or target.engine)
    text = text_of(page)
    if text is None:
        return None
    try:
        samples = read_page(text, page.content_type, at_s=page.at_s, monotonic_s=page.monotonic_s)
    except PageRefused:
        return None
    lookups = [sample.lookups for sample in samples if sample.lookups is not None]
    units = [(found, found.tokens_per_unit) for found in lookups]
    known = bool(units) and all(unit is not None for _, unit in units)
    return EngineCounters(
        queries=sum(found.queries * (unit or 1) for found, unit in units) if known else None,
        hits=sum(found.hits * (unit or 1) for found, unit in units) if known else None,
        preemptions=_sum(sample.preemptions for sample in samples),
        evictions=_sum(sample.evictions for sample in samples),
        resets=_sum(sample.resets for sample in samples),
        running=_sum(sample.running for sample in samples),
        waiting=_sum(sample.waiting for sample in samples),
        kv_usage=max((s.kv_usage for s in samples if s.kv_usage is not None), default=None),
        block_size=next((sample.block_size for sample in samples if sample.block_size), None),
        capacity_tokens=_whole(_sum(sample.capacity_tokens for sample in samples)),
        start_time_s=max((s.start_time_s for s in samples if s.start_time_s is not None), default=None),
        resident_bytes=summed(text, "process_resident_memory_bytes"),
        adapter_slots=max((s.adapters.max_adapters or 0 for s in samples if s.adapters), default=0) or None,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
