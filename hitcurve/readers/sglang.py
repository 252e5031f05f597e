"""SGLang pages to samples (names of 0.5.23). The gauge ``cache_hit_rate`` is the last batch only: not read.

A counter with labels is printed from its first increase on (``srt/observability/metrics_collector.py`` of 0.5.22
leaves increases of 0 out). So an engine that served nothing prints no token counters, and one that found nothing
yet prints no ``prefill_cache``: that one is 0, since both modes are counted at one place. No prefill finds every
token, so ``prefill_cache`` alone is half a pair.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from hitcurve import flags
from hitcurve.readers.engines import EngineLabels, MetricTable, engine_ids, is_count, is_plausible
from hitcurve.readers.exposition import Page, Series
from hitcurve.sample import EngineSample, LookupCounters, ServedCounters

__all__ = ["LOOKED_FOR", "read_sglang", "sglang_names"]

LOOKED_FOR: Final = "sglang:realtime_tokens_total"
_PREFIXES: Final = ("sglang:", "sglang_")
_COUNTERS: Final = (
    "realtime_tokens",
    "prompt_tokens",
    "cached_tokens",
    "num_retracted_requests",
    "evicted_tokens",
)
_UNUSED: Final = ("max_total_num_tokens", "token_usage")
"""Gauges of the scheduler by which an engine is known that served nothing yet: one series a rank."""
_OTHERS: Final = (
    *_UNUSED,
    "page_size",
    "num_pages",
    "num_running_reqs",
    "num_queue_reqs",
    "time_to_first_token_seconds_count",
    "time_to_first_token_seconds_sum",
)
_COPY_RANKS: Final = ("tp_rank", "pp_rank", "moe_ep_rank", "attn_cp_rank", "moe_dp_rank")
"""Ranks that work on the same requests: each prints the traffic of all."""
_SPLIT_BY: Final = frozenset({"pid", "le", "mode", "cache_source", *_COPY_RANKS})


@cache
def sglang_names() -> MappingProxyType[str, str]:
    """Printed name to metric."""
    table = {
        f"{prefix}{name}{suffix}": name for prefix in _PREFIXES for name in _COUNTERS for suffix in ("_total", "")
    }
    table |= {f"{prefix}{name}": name for prefix in _PREFIXES for name in _OTHERS}
    return MappingProxyType(table)


def read_sglang(page: Page, *, at_s: float, monotonic_s: float) -> tuple[EngineSample, ...]:
    """One sample per data-parallel rank and model.

    No samples where the page is not SGLang's, or has only one counter of the older pair.
    """
    metrics: dict[str, tuple[Series, ...]] = {}
    for printed, metric in sglang_names().items():
        if printed in page.series:
            metrics.setdefault(metric, page.series[printed])
    table = MetricTable(metrics, _SPLIT_BY)
    engines = _engines(table, metrics)
    ids = engine_ids(engines) if engines else ()
    evictions_told = _has_evictions_of_each(metrics, len(engines))
    names = {name for labels in engines for name in labels}
    telling = [name for name in names if len({labels.get(name) for labels in engines}) > 1]
    return tuple(
        _sample(
            page,
            _Own(table, labels, telling),
            engine,
            evictions_told=evictions_told,
            at_s=at_s,
            monotonic_s=monotonic_s,
        )
        for engine, labels in zip(ids, engines, strict=True)
    )


def _engines(table: MetricTable, metrics: Mapping[str, object]) -> list[EngineLabels]:
    """Those that count tokens, and ranks beside them that served nothing yet."""
    if "realtime_tokens" in metrics:
        counting = table.engines(("realtime_tokens",))
        kinds = {frozenset(labels) for labels in counting}
        unused = [labels for labels in table.engines(_UNUSED) if frozenset(labels) in kinds]
        return [*counting, *(labels for labels in unused if labels not in counting)]
    if "cached_tokens" in metrics:
        return table.engines(("cached_tokens",))
    return [] if "prompt_tokens" in metrics else table.engines(_UNUSED)


@dataclass(frozen=True, slots=True)
class _Own:
    """What belongs to one engine of a page: of several only series with those labels that tell it from the others.

    The API server counts requests and prompt tokens of all ranks together, without ``dp_rank``.
    """

    table: MetricTable
    labels: EngineLabels
    telling: Sequence[str]

    def series(self, metric: str) -> list[Series]:
        found = self.table.series(metric, self.labels)
        return [one for one in found if all(self._is_as_here(one, name) for name in self.telling)]

    def _is_as_here(self, one: Series, name: str) -> bool:
        return (one.labels.get(name) or None) == self.labels.get(name)


def _has_evictions_of_each(metrics: Mapping[str, tuple[Series, ...]], engines: int) -> bool:
    """Whether evictions are told rank by rank: older versions print the sum of all ranks, and replicas without
    data-parallel attention share ``dp_rank="0"``."""
    ranks = [series.labels for series in metrics.get("evicted_tokens", ())]
    if not all("tp_rank" in labels for labels in ranks):
        return False
    return engines == 1 or len({labels.get("dp_rank") for labels in ranks}) == engines


def _sample(
    page: Page, own: _Own, engine: str, *, evictions_told: bool, at_s: float, monotonic_s: float
) -> EngineSample:
    served = _served(own)
    lookups = _lookups(own, served)
    page_size = _whole(own, "page_size")
    return EngineSample(
        engine=engine,
        at_s=at_s,
        monotonic_s=monotonic_s,
        labels=own.labels,
        lookups=lookups,
        served=served,
        tier_hits=_split(own, "cached_tokens", "cache_source"),
        requests=_one_rank_sum(own, "time_to_first_token_seconds_count"),
        ttft_seconds=_one_rank_sum(own, "time_to_first_token_seconds_sum"),
        kv_usage=_one_rank_gauge(own, "token_usage"),
        preemptions=_one_rank_sum(own, "num_retracted_requests"),
        evictions=_evicted_pages(own, page_size) if evictions_told else None,
        running=_one_rank_gauge(own, "num_running_reqs"),
        waiting=_one_rank_gauge(own, "num_queue_reqs"),
        block_size=page_size,
        pool_blocks=_whole(own, "num_pages"),
        capacity_tokens=_whole(own, "max_total_num_tokens"),
        min_reusable_prefix_tokens=page_size,
        flags=_flags(page, lookups),
    )


def _flags(page: Page, lookups: LookupCounters | None) -> tuple[str, ...]:
    if lookups is None:
        return (flags.UNREADABLE_LOOKUPS,)
    return (flags.DUPLICATE_SERIES,) if lookups.spelling in page.repeated else ()


def _lookups(own: _Own, served: ServedCounters | None) -> LookupCounters | None:
    """By ``realtime_tokens`` alone where that is printed: another pair for one scrape would read as a restart."""
    if own.series("realtime_tokens"):
        return _realtime(own)
    if served is not None:
        spelling = own.series("prompt_tokens")[0].name
        return LookupCounters(served.prompt_tokens, served.cached_tokens, spelling=spelling)
    if _is_unused(own):
        return LookupCounters(0.0, 0.0, spelling=_spelling_beside(own.series("token_usage")))
    return None


def _is_unused(own: _Own) -> bool:
    """Whether nothing was served yet: no counter is there, and nothing runs that would come to one."""
    counted = any(own.series(name) for name in (*_COUNTERS, "time_to_first_token_seconds_count"))
    return not counted and _one_rank_gauge(own, "num_running_reqs") == 0.0


def _spelling_beside(found: list[Series]) -> str:
    """The name that the counter will have, by that of a gauge."""
    rewritten = bool(found) and found[0].name.startswith("sglang_")
    return LOOKED_FOR.replace(":", "_") if rewritten else LOOKED_FOR


def _realtime(own: _Own) -> LookupCounters | None:
    modes = _split(own, "realtime_tokens", "mode")
    if modes is None or not ("prefill_compute" in modes or modes.keys() == {"decode"}):
        return None
    hits, computed = modes.get("prefill_cache", 0.0), modes.get("prefill_compute", 0.0)
    return LookupCounters(hits + computed, hits, spelling=own.series("realtime_tokens")[0].name)


def _served(own: _Own) -> ServedCounters | None:
    prompt = _one_rank_sum(own, "prompt_tokens")
    cached = _split(own, "cached_tokens", "cache_source")
    if prompt is None or cached is None:
        return None
    return ServedCounters(prompt, sum(cached.values()))


def _evicted_pages(own: _Own, page_size: int | None) -> float | None:
    tokens = [one.value for one in _lowest_ranks(own.table.series("evicted_tokens", own.labels))]
    if not tokens or not page_size or not all(map(is_count, tokens)):
        return None
    return sum(tokens) / page_size


def _split(own: _Own, metric: str, label: str) -> Mapping[str, float] | None:
    values = {series.labels.get(label, ""): series.value for series in _lowest_ranks(own.series(metric))}
    if not values or not all(map(is_count, values.values())):
        return None
    return values


def _one_rank_sum(own: _Own, metric: str) -> float | None:
    values = [series.value for series in _lowest_ranks(own.series(metric))]
    if not values or not all(map(is_count, values)):
        return None
    return sum(values)


def _one_rank_gauge(own: _Own, metric: str) -> float | None:
    values = [series.value for series in _lowest_ranks(own.series(metric))]
    return values[0] if len(values) == 1 and is_plausible(values[0]) else None


def _whole(own: _Own, metric: str) -> int | None:
    value = _one_rank_gauge(own, metric)
    return int(value) if value is not None and value > 0 and value == int(value) else None


def _lowest_ranks(found: list[Series]) -> list[Series]:
    """Series of the lowest rank present, which need not be rank 0."""
    ranks = [tuple(_rank(series.labels.get(name, "0")) for name in _COPY_RANKS) for series in found]
    lowest = min(ranks, default=())
    return [series for series, rank in zip(found, ranks, strict=True) if rank == lowest]


def _rank(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
