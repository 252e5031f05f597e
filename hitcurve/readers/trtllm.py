"""TensorRT-LLM pages to samples: ``/prometheus/metrics`` of trtllm-serve, and what Dynamo passes through.

Names as of ``tensorrt_llm/metrics/collector.py`` (main branch, 2026); Dynamo wrote ``trtllm:`` in older versions.
Not read: ``kv_cache_hit_rate`` and ``kv_cache_iter_reuse_rate`` (gauges of the last iteration),
``kv_cache_utilization`` (whether idle cached blocks are in it is not documented), capacity (pools of several
attention windows are summed), evictions, preemptions and cached tokens (there are none).
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from hitcurve import flags
from hitcurve.readers.engines import EngineLabels, MetricTable, engine_ids
from hitcurve.readers.exposition import Page, Series
from hitcurve.sample import EngineSample, LookupCounters

__all__ = ["LOOKED_FOR", "read_trtllm", "trtllm_names"]

LOOKED_FOR: Final = "trtllm_kv_cache_reused_blocks_total"
_PREFIXES: Final = ("trtllm_", "trtllm:")
_HITS: Final = "kv_cache_reused_blocks"
_MISSES: Final = "kv_cache_missed_blocks"
_COUNTERS: Final = (_HITS, _MISSES, "num_requests_completed")
_OTHERS: Final = (
    "kv_cache_max_blocks",
    "kv_cache_tokens_per_block",
    "num_requests_running",
    "num_requests_waiting",
    "time_to_first_token_seconds_count",
    "time_to_first_token_seconds_sum",
)
_SPLIT_BY: Final = frozenset({"pid", "le", "finished_reason"})


@cache
def trtllm_names() -> MappingProxyType[str, str]:
    """Printed name to metric."""
    table = {
        f"{prefix}{name}{suffix}": name for prefix in _PREFIXES for name in _COUNTERS for suffix in ("_total", "")
    }
    table |= {f"{prefix}{name}": name for prefix in _PREFIXES for name in _OTHERS}
    return MappingProxyType(table)


def read_trtllm(page: Page, *, at_s: float, monotonic_s: float) -> tuple[EngineSample, ...]:
    """One sample per engine; none where the page has no block counters of TensorRT-LLM.

    They are there with ``enable_iter_perf_stats: true``. The engine prints a counter from its first increase on:
    one that is announced and has no series yet is 0.
    """
    metrics: dict[str, tuple[Series, ...]] = {}
    for printed, metric in trtllm_names().items():
        if printed in page.series:
            metrics.setdefault(metric, page.series[printed])
    announced = {trtllm_names()[printed] for printed in page.helps if printed in trtllm_names()}
    if not {_HITS, _MISSES} <= announced | metrics.keys():
        return ()
    table = MetricTable(metrics, _SPLIT_BY)
    engines = table.engines((_HITS, _MISSES, "kv_cache_max_blocks"))
    ids = engine_ids(engines) if engines else ()
    return tuple(
        _sample(page, table, metrics, engine, labels, at_s=at_s, monotonic_s=monotonic_s)
        for engine, labels in zip(ids, engines, strict=True)
    )


def _sample(
    page: Page,
    table: MetricTable,
    metrics: Mapping[str, tuple[Series, ...]],
    engine: str,
    labels: EngineLabels,
    *,
    at_s: float,
    monotonic_s: float,
) -> EngineSample:
    block_size = _whole(table.gauge("kv_cache_tokens_per_block", labels))
    lookups = _lookups(table, labels, block_size)
    found = []
    if lookups is None:
        found.append(flags.UNREADABLE_LOOKUPS)
    elif lookups.tokens_per_unit is None:
        found.append(flags.UNKNOWN_BLOCK_SIZE)
    if any(series.name in page.repeated for name in (_HITS, _MISSES) for series in metrics.get(name, ())):
        found.append(flags.DUPLICATE_SERIES)
    requests = table.counter("time_to_first_token_seconds_count", labels)
    return EngineSample(
        engine=engine,
        at_s=at_s,
        monotonic_s=monotonic_s,
        labels=labels,
        lookups=lookups,
        requests=table.counter("num_requests_completed", labels) if requests is None else requests,
        ttft_seconds=table.counter("time_to_first_token_seconds_sum", labels),
        running=table.gauge("num_requests_running", labels),
        waiting=table.gauge("num_requests_waiting", labels),
        block_size=block_size,
        pool_blocks=_whole(table.gauge("kv_cache_max_blocks", labels)),
        flags=tuple(found),
    )


def _lookups(table: MetricTable, labels: EngineLabels, block_size: int | None) -> LookupCounters | None:
    """Blocks: those found, and those found or not."""
    hits, misses = (
        table.counter(name, labels) if table.series(name, labels) else 0.0 for name in (_HITS, _MISSES)
    )
    if hits is None or misses is None:
        return None
    return LookupCounters(hits + misses, hits, unit="blocks", tokens_per_unit=block_size, spelling=LOOKED_FOR)


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and value > 0 and value == int(value) else None
