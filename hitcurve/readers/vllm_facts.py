"""Facts a vLLM page states in labels: the cache configuration and the LoRA activity."""

from dataclasses import dataclass
from typing import Final

from hitcurve.readers.engines import EngineLabels, MetricTable
from hitcurve.readers.exposition import Series
from hitcurve.sample import AdapterActivity

__all__ = ["CacheFacts", "adapter_activity", "cache_facts"]

_LAST_PLAUSIBLE_CLOCK_S: Final = 4e9
"""Year 2096: the gauge is a Unix time, unless several API processes were summed."""
_SAME_CAPACITY: Final = 0.1
_MOST_DIGITS: Final = 15
"""int() raises for thousands of them."""


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """Pool facts; ``pool_blocks`` is vLLM's num_gpu_blocks and counts the reserved null block."""

    block_size: int | None = None
    pool_blocks: int | None = None
    capacity_tokens: int | None = None
    min_reusable_prefix_tokens: int | None = None


def cache_facts(table: MetricTable, labels: EngineLabels) -> CacheFacts:
    """Facts of ``vllm:cache_config_info``, whose labels are text and may say "None".

    On hybrid models ``block_size`` is that of the smallest group and blocks times block size is not the
    capacity, so the capacity is taken from ``kv_cache_size_tokens`` alone (vLLM 0.32).
    """
    found = table.series("cache_config_info", labels)
    if not found:
        return CacheFacts()
    config = found[0].labels
    block_size = _whole(config.get("block_size"))
    pool_blocks = _whole(config.get("num_gpu_blocks"))
    capacity = _whole(config.get("kv_cache_size_tokens"))
    shortest = _whole(config.get("cache_hit_alignment_tokens"))
    if shortest is None and not _is_hybrid(block_size, pool_blocks, capacity):
        shortest = block_size
    return CacheFacts(block_size, pool_blocks, capacity, shortest)


def adapter_activity(table: MetricTable, labels: EngineLabels, *, alone: bool) -> AdapterActivity | None:
    """Adapters of the newest sample of ``vllm:lora_requests_info``; every past combination stays on the page.

    ``None`` where the series does not say which of several engines it speaks of, and where the value is no
    clock (several API processes are summed in multiprocess mode).
    """
    found = table.series("lora_requests_info", labels)
    if not alone:
        found = [series for series in found if series.labels.keys() & labels.keys()]
    newest = max(found, key=_clock, default=None)
    if newest is None or not 0 < newest.value < _LAST_PLAUSIBLE_CLOCK_S:
        return None
    return AdapterActivity(
        running=_names(newest.labels.get("running_lora_adapters", "")),
        waiting=_names(newest.labels.get("waiting_lora_adapters", "")),
        max_adapters=_whole(newest.labels.get("max_lora")),
    )


def _clock(series: Series) -> float:
    return series.value if series.value == series.value else 0.0


def _is_hybrid(block_size: int | None, pool_blocks: int | None, capacity: int | None) -> bool:
    if block_size is None or pool_blocks is None or capacity is None:
        return False
    return abs(block_size * pool_blocks - capacity) > _SAME_CAPACITY * capacity


def _whole(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        return None
    return int(text) or None


def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted({name.strip() for name in text.split(",")} - {""}))
