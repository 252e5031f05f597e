"""SGLang pages to samples (names of 0.5.23). The gauge ``cache_hit_rate`` is the last batch only: not read.

A counter with labels is printed from its first increase on (``srt/observability/metrics_collector.py`` of 0.5.22
leaves increases of 0 out). So an engine that served nothing prints no token counters, and one that found nothing
yet prints no ``prefill_cache``: that one is 0, since both modes are counted at one place.
"""

from collections.abc import Mapping
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
    engines = table.engines(_identifying(metrics))
    ids = engine_ids(engines) if engines else ()
    own_evictions = _has_evictions_of_each(table, metrics, len(engines))
    return tuple(
        _sample(page, table, engine, labels, own_evictions=own_evictions, at_s=at_s, monotonic_s=monotonic_s)
        for engine, labels in zip(ids, engines, strict=True)
    )


def _identifying(metrics: Mapping[str, object]) -> tuple[str, ...]:
    for lookups in ("realtime_tokens", "cached_tokens"):
        if lookups in metrics:
            return (lookups,)
    return () if "prompt_tokens" in metrics else _UNUSED


def _has_evictions_of_each(table: MetricTable, metrics: Mapping[str, tuple[Series, ...]], engines: int) -> bool:
    """Whether evictions are told rank by rank: older versions print the sum of all ranks, and replicas without
    data-parallel attention share ``dp_rank="0"``."""
    ranks = [series.labels for series in metrics.get("evicted_tokens", ())]
    if not all("tp_rank" in labels for labels in ranks):
        return False
    return engines == 1 or len({labels.get("dp_rank") for labels in ranks}) == engines


def _sample(
    page: Page,
    table: MetricTable,
    engine: str,
    labels: EngineLabels,
    *,
    own_evictions: bool,
    at_s: float,
    monotonic_s: float,
) -> EngineSample:
    served = _served(table, labels)
    lookups = _realtime(table, labels)
    if lookups is None and served is not None:
        spelling = table.series("prompt_tokens", labels)[0].name
        lookups = LookupCounters(served.prompt_tokens, served.cached_tokens, spelling=spelling)
    if lookups is None and _is_unused(table, labels):
        lookups = LookupCounters(0.0, 0.0, spelling=_spelling_beside(table.series("token_usage", labels)))
    repeated = lookups is not None and lookups.spelling in page.repeated
    page_size, evicted = _whole(table, "page_size", labels), _one_rank_sum(table, "evicted_tokens", labels)
    return EngineSample(
        engine=engine,
        at_s=at_s,
        monotonic_s=monotonic_s,
        labels=labels,
        lookups=lookups,
        served=served,
        tier_hits=_split(table, "cached_tokens", "cache_source", labels),
        requests=_one_rank_sum(table, "time_to_first_token_seconds_count", labels),
        ttft_seconds=_one_rank_sum(table, "time_to_first_token_seconds_sum", labels),
        kv_usage=_one_rank_gauge(table, "token_usage", labels),
        preemptions=_one_rank_sum(table, "num_retracted_requests", labels),
        evictions=evicted / page_size if own_evictions and evicted is not None and page_size else None,
        running=_one_rank_gauge(table, "num_running_reqs", labels),
        waiting=_one_rank_gauge(table, "num_queue_reqs", labels),
        block_size=page_size,
        pool_blocks=_whole(table, "num_pages", labels),
        capacity_tokens=_whole(table, "max_total_num_tokens", labels),
        min_reusable_prefix_tokens=page_size,
        flags=(flags.DUPLICATE_SERIES,) if repeated else (),
    )


def _is_unused(table: MetricTable, labels: EngineLabels) -> bool:
    """Whether nothing was served yet: no counter is there, and nothing runs that would come to one."""
    counted = any(table.series(name, labels) for name in (*_COUNTERS, "time_to_first_token_seconds_count"))
    return not counted and _one_rank_gauge(table, "num_running_reqs", labels) == 0.0


def _spelling_beside(found: list[Series]) -> str:
    """The name that the counter will have, by that of a gauge."""
    rewritten = bool(found) and found[0].name.startswith("sglang_")
    return LOOKED_FOR.replace(":", "_") if rewritten else LOOKED_FOR


def _realtime(table: MetricTable, labels: EngineLabels) -> LookupCounters | None:
    modes = _split(table, "realtime_tokens", "mode", labels)
    if modes is None:
        return None
    hits, computed = modes.get("prefill_cache", 0.0), modes.get("prefill_compute", 0.0)
    spelling = table.series("realtime_tokens", labels)[0].name
    return LookupCounters(hits + computed, hits, spelling=spelling)


def _served(table: MetricTable, labels: EngineLabels) -> ServedCounters | None:
    prompt = _one_rank_sum(table, "prompt_tokens", labels)
    cached = _split(table, "cached_tokens", "cache_source", labels)
    if prompt is None or cached is None:
        return None
    return ServedCounters(prompt, sum(cached.values()))


def _split(table: MetricTable, metric: str, label: str, labels: EngineLabels) -> Mapping[str, float] | None:
    found = _lowest_ranks(table.series(metric, labels))
    values = {series.labels.get(label, ""): series.value for series in found}
    if not values or not all(map(is_count, values.values())):
        return None
    return values


def _one_rank_sum(table: MetricTable, metric: str, labels: EngineLabels) -> float | None:
    values = [series.value for series in _lowest_ranks(table.series(metric, labels))]
    if not values or not all(map(is_count, values)):
        return None
    return sum(values)


def _one_rank_gauge(table: MetricTable, metric: str, labels: EngineLabels) -> float | None:
    values = [series.value for series in _lowest_ranks(table.series(metric, labels))]
    return values[0] if len(values) == 1 and is_plausible(values[0]) else None


def _whole(table: MetricTable, metric: str, labels: EngineLabels) -> int | None:
    value = _one_rank_gauge(table, metric, labels)
    return int(value) if value is not None and value > 0 and value == int(value) else None


def _lowest_ranks(found: list[Series]) -> list[Series]:
    """Series of the lowest rank present, which need not be rank 0."""
    ranks = [tuple(_rank(series.labels.get(name, "0")) for name in _COPY_RANKS) for series in found]
    lowest = min(ranks, default=())
    return [series for series, rank in zip(found, ranks, strict=True) if rank == lowest]


def _rank(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
