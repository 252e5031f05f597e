"""Every printed spelling of the vLLM metrics we read, vLLM 0.8.5 to 0.33.

Between engine and reader a name may lose or gain ``_total`` (client library, OpenTelemetry), have its colon
replaced (OpenTelemetry, Ray) and gain ``ray_`` in front.
"""

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

__all__ = ["Spelling", "spellings"]

_PREFIXES: Final = ("vllm:", "vllm_", "ray_vllm:", "ray_vllm_")
_COUNTERS: Final = (
    "prefix_cache_queries",
    "prefix_cache_hits",
    "gpu_prefix_cache_queries",
    "gpu_prefix_cache_hits",
    "external_prefix_cache_queries",
    "external_prefix_cache_hits",
    "prompt_tokens",
    "prompt_tokens_cached",
    "prompt_tokens_by_source",
    "prompt_tokens_cached_by_source",
    "num_preemptions",
    "request_success",
)
_OTHERS: Final = (
    "prefix_cache_queries_created",
    "gpu_prefix_cache_queries_created",
    "kv_cache_usage_perc",
    "gpu_cache_usage_perc",
    "num_requests_running",
    "num_requests_waiting",
    "cache_config_info",
    "lora_requests_info",
    "time_to_first_token_seconds_count",
    "time_to_first_token_seconds_sum",
)
_UNPREFIXED: Final = {
    "process_start_time_seconds": "process_start_time_seconds",
    "hitcurve_engine_resets_total": "engine_resets",
    "hitcurve_engine_evicted_blocks_total": "engine_evicted_blocks",
    "hitcurve_engine_query_tokens_total": "engine_query_tokens",
    "hitcurve_engine_hit_tokens_total": "engine_hit_tokens",
    "hitcurve_engine_miss_tokens_total": "engine_miss_tokens",
}


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a printed name is read: the lower ``rank`` wins where a page prints several."""

    rank: int
    metric: str


@cache
def spellings() -> MappingProxyType[str, Spelling]:
    """Printed name to spelling."""
    table = {printed: Spelling(0, metric) for printed, metric in _UNPREFIXED.items()}
    for rank, prefix in enumerate(_PREFIXES):
        for name in _COUNTERS:
            table[f"{prefix}{name}_total"] = Spelling(2 * rank, name)
            table[f"{prefix}{name}"] = Spelling(2 * rank + 1, name)
        for name in _OTHERS:
            table[f"{prefix}{name}"] = Spelling(2 * rank, name)
    return MappingProxyType(table)
