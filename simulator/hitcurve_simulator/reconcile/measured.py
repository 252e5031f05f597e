"""What engines counted while the traffic of a log ran: counters of pages or readings, first against last."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hitcurve import flags
from hitcurve.counters import LookupPair
from hitcurve.reading import Reading
from hitcurve.sample import EngineSample, LookupCounters

__all__ = ["Measured", "measured_by_pages", "measured_by_readings", "rules_of"]

_RULES: Final = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm"}
_HARMLESS: Final = {flags.DUPLICATE_SERIES, flags.HITS_EXCEED_QUERIES}


@dataclass(frozen=True, slots=True)
class Measured:
    """Lookups of one engine in tokens; None is unknown. ``problems`` say why the numbers prove nothing."""

    engine: str
    query_tokens: float | None
    hit_tokens: float | None
    rules: str | None = None
    block_size: int | None = None
    pool_blocks: int | None = None
    """As printed: vLLM counts the one it reserves, too."""
    preemptions: float | None = None
    problems: tuple[str, ...] = ()


def rules_of(spelling: str) -> str | None:
    """The rule set of the engine that prints a counter of this name."""
    return next((rules for prefix, rules in _RULES.items() if spelling.startswith(prefix)), None)


def measured_by_pages(pages: Sequence[tuple[EngineSample, ...]], since_start: bool = False) -> list[Measured]:
    """What was added from the first page to the last; ``since_start``: from zero to the last."""
    if since_start:
        pages = [tuple(_at_zero(sample) for sample in pages[-1]), pages[-1]]
    engines = list(dict.fromkeys(sample.engine for page in pages for sample in page))
    return [_of_engine(engine, pages) for engine in engines]


def _at_zero(sample: EngineSample) -> EngineSample:
    lookups = sample.lookups
    none_yet = None if lookups is None else replace(lookups, queries=0.0, hits=0.0)
    return replace(sample, lookups=none_yet, preemptions=None if sample.preemptions is None else 0.0)


def _of_engine(engine: str, pages: Sequence[tuple[EngineSample, ...]]) -> Measured:
    found = [next((sample for sample in page if sample.engine == engine), None) for page in pages]
    seen = [sample for sample in found if sample is not None]
    last = seen[-1]
    problems: list[str] = []
    if len(seen) < len(found):
        problems.append("it is not on every page")
    counters = [sample.lookups for sample in seen if sample.lookups is not None]
    if len(counters) < len(seen) or last.lookups is None:
        return Measured(engine, None, None, problems=("it prints no counters of the prefix cache",))
    queries, hits, more = _added(seen, counters)
    problems += more
    first_resets, last_resets = seen[0].resets, last.resets
    if first_resets is not None and last_resets is not None and last_resets > first_resets:
        problems.append("its prefix cache was reset meanwhile")
    first, rules = seen[0], rules_of(last.lookups.spelling)
    preempted = None
    if first.preemptions is not None and last.preemptions is not None:
        preempted = last.preemptions - first.preemptions
    return Measured(
        engine=engine,
        query_tokens=queries,
        hit_tokens=hits,
        rules=rules,
        block_size=last.block_size,
        pool_blocks=last.pool_blocks,
        preemptions=preempted,
        problems=tuple(problems),
    )


def _added(
    seen: Iterable[EngineSample], counters: Sequence[LookupCounters]
) -> tuple[float | None, float | None, list[str]]:
    pair = LookupPair()
    queries: float | None = 0.0
    hits: float | None = 0.0
    problems: list[str] = []
    for sample, lookups in zip(seen, counters, strict=True):
        added = pair.add(lookups, start_time_s=sample.start_time_s, at_s=sample.at_s)
        if added is None:
            continue
        if added.restarts:
            problems.append("it restarted meanwhile")
        problems += [flags.ALL_FLAGS[name] for name in added.flags if name not in _HARMLESS]
        queries = None if queries is None or added.queries is None else queries + added.queries
        hits = None if hits is None or added.hits is None else hits + added.hits
    if queries is None:
        problems.append("its counters give no number of tokens")
    return queries, hits, list(dict.fromkeys(problems))


def measured_by_readings(readings: Sequence[Reading]) -> list[Measured]:
    """The same from the readings of a run folder, whose totals are corrected for restarts."""
    engines = list(dict.fromkeys((reading.target, reading.engine) for reading in readings))
    return [
        _of_readings([one for one in readings if (one.target, one.engine) == engine], alone=len(engines) == 1)
        for engine in engines
    ]


def _of_readings(readings: Sequence[Reading], alone: bool) -> Measured:
    first, last = readings[0], readings[-1]
    problems = []
    if last.restarts_total > first.restarts_total:
        problems.append("it restarted meanwhile")
    if last.resets_total > first.resets_total:
        problems.append("its prefix cache was reset meanwhile")
    return Measured(
        engine=last.engine if alone else f"{last.target} {last.engine}",
        query_tokens=last.query_tokens_total - first.query_tokens_total,
        hit_tokens=last.hit_tokens_total - first.hit_tokens_total,
        block_size=next((one.block_size for one in reversed(readings) if one.block_size), None),
        pool_blocks=next((one.pool_blocks for one in reversed(readings) if one.pool_blocks), None),
        problems=tuple(problems),
    )
