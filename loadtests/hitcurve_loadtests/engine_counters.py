"""The hit rate of a run as the engine counted it: its page of metrics before the run against the one after.

Requests that others sent meanwhile are in it, which is what makes it worth comparing with the client's own count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hitcurve.readers import PageRefused, read_page
from hitcurve.sample import EngineSample
from hitcurve.scrape import fetch

__all__ = ["EngineLookups", "engine_lookups", "lookups_during_run", "read_engine"]

_TIMEOUT_S = 5.0
_LARGEST_PAGE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EngineLookups:
    """Lookups during the run over all engines of the page, in tokens; ``reason`` says why there is no value."""

    query_tokens: float | None
    hit_tokens: float | None
    hit_rate: float | None
    reason: str | None = None


def lookups_during_run(before: Sequence[EngineSample], after: Sequence[EngineSample]) -> EngineLookups:
    """Increase of hits / increase of queries, summed over engines.

    No value where any counter fell, an engine restarted, or the engines or units are not the same as before: a
    partial sum would be a number about something else. Where engines count blocks of unknown size there is a
    rate but no volume.
    """
    earlier = {sample.engine: sample for sample in before}
    if not earlier or earlier.keys() != {sample.engine for sample in after}:
        return _no_value("the page shows other engines after the run than before it")
    queries = hits = 0.0
    sizes: set[int | None] = set()
    for sample in after:
        then = earlier[sample.engine]
        if sample.lookups is None or then.lookups is None:
            return _no_value("an engine prints no prefix cache counters")
        if (sample.lookups.unit, sample.lookups.tokens_per_unit) != (
            then.lookups.unit,
            then.lookups.tokens_per_unit,
        ):
            return _no_value("the unit of the counters changed during the run")
        added_queries = sample.lookups.queries - then.lookups.queries
        added_hits = sample.lookups.hits - then.lookups.hits
        if added_queries < 0 or added_hits < 0:
            return _no_value("a counter fell during the run")
        if sample.start_time_s != then.start_time_s:
            return _no_value("an engine restarted during the run")
        size = sample.lookups.tokens_per_unit
        sizes.add(size)
        queries += added_queries * (size or 1)
        hits += added_hits * (size or 1)
    if None in sizes and len(sizes) > 1:
        return _no_value("some engines count blocks of unknown size")
    rate = hits / queries if queries > 0 else None
    if None in sizes:
        return EngineLookups(None, None, rate)
    return EngineLookups(queries, hits, rate, None if queries > 0 else "the engine looked nothing up")


def engine_lookups(before: tuple[EngineSample, ...] | str, after: tuple[EngineSample, ...] | str) -> EngineLookups:
    """``lookups_during_run`` of what ``read_engine`` gave; a page that could not be read leaves no value."""
    if isinstance(before, str):
        return _no_value(before)
    if isinstance(after, str):
        return _no_value(after)
    return lookups_during_run(before, after)


def read_engine(url: str) -> tuple[EngineSample, ...] | str:
    """The engines on the page at ``url``, or a sentence that says why there are none. Never raises."""
    scrape = fetch(url, _TIMEOUT_S, _LARGEST_PAGE_BYTES)
    if scrape.error is not None or scrape.body is None:
        return f"{url}: {scrape.error or 'no page'}"
    if scrape.status != 200:
        return f"{url}: HTTP {scrape.status}"
    try:
        return read_page(scrape.body, scrape.content_type, at_s=scrape.at_s, monotonic_s=scrape.monotonic_s)
    except PageRefused as refusal:
        return f"{url}: {refusal}"


def _no_value(reason: str) -> EngineLookups:
    return EngineLookups(None, None, None, reason)
