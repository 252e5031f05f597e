"""The metrics that dashboards and rules may name: our catalogues, the engines' own, and what rules record.

The names and kinds of vLLM's are those of the page that vLLM 0.32.0 serves; ``gpu_`` names are those of 0.8.5 to
0.11. A scrape in OpenMetrics by Prometheus 2.x renames ``vllm:x`` to ``vllm_x``.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from hitcurve.catalogue import CATALOGUE
from hitcurve.engine_patch_catalogue import ENGINE_PATCH_CATALOGUE, FIRST_TOKEN

__all__ = ["INFO_SERIES", "VLLM", "Kind", "known_metrics"]

Kind = Literal["counter", "gauge", "recorded"]

_HISTOGRAMS = (
    "vllm:request_prefill_kv_computed_tokens",
    "vllm:request_prefill_time_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:time_to_first_token_seconds",
)
_COUNTERS = (
    "vllm:external_prefix_cache_hits_total",
    "vllm:external_prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_queries_total",
    "vllm:num_preemptions_total",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prompt_tokens_by_source_total",
    "vllm:prompt_tokens_total",
)
_GAUGES = (
    "vllm:cache_config_info",
    "vllm:kv_cache_usage_perc",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
)
VLLM: Mapping[str, Kind] = {
    **dict.fromkeys(_COUNTERS, "counter"),
    **dict.fromkeys(_GAUGES, "gauge"),
    **{f"{name}_{part}": "counter" for name in _HISTOGRAMS for part in ("bucket", "sum", "count")},
}
INFO_SERIES = frozenset({"vllm:cache_config_info", "vllm_cache_config_info"})
"""Series without ``model_name``: a selector with that label finds none of them."""


def known_metrics(recorded: Iterable[str] = ()) -> dict[str, Kind]:
    """Every name with its kind; ``recorded`` are the names that rules record."""
    known: dict[str, Kind] = {metric.name: metric.kind for metric in CATALOGUE}
    for added in (*ENGINE_PATCH_CATALOGUE, FIRST_TOKEN):
        parts = ("_bucket", "_sum", "_count") if added.kind == "histogram" else ("",)
        known |= {added.name + part: "gauge" if added.kind == "gauge" else "counter" for part in parts}
    known |= {"up": "gauge"}
    for name, kind in VLLM.items():
        known[name] = kind
        known[name.replace("vllm:", "vllm_")] = kind
    return known | dict.fromkeys(recorded, "recorded")
