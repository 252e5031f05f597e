"""The metrics that dashboards and rules may name: our catalogues, the engines' own, and what rules record.

The names and kinds of vLLM's are those of the page that vLLM 0.32.0 serves; ``gpu_`` names are those of 0.8.5 to
0.11. A scrape in OpenMetrics by Prometheus 2.x renames ``vllm:x`` to ``vllm_x``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from hitcurve.catalogue import CATALOGUE
from hitcurve.curve import miss_reasons
from hitcurve.engine_patch_catalogue import ENGINE_PATCH_CATALOGUE, ENGINE_PATCH_LABELS, FIRST_TOKEN

__all__ = [
    "FIRST_TOKEN_BOUNDS",
    "INFO_SERIES",
    "LEVELS",
    "MISS_REASONS",
    "VLLM",
    "Kind",
    "Origin",
    "known_metrics",
    "labels_of",
    "origin_of",
    "other_spelling",
]

Kind = Literal["counter", "gauge", "recorded"]
Origin = Literal["exporter", "page"]

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
# fmt: off
FIRST_TOKEN_BOUNDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)
# fmt: on
"""Bucket bounds of vLLM's time to the first token, in seconds."""
INFO_SERIES = frozenset({"vllm:cache_config_info", "vllm_cache_config_info"})
"""Series without ``model_name``: a selector with that label finds none of them."""
MISS_REASONS = (*miss_reasons.MISS_REASONS, "unknown")
"""What ``reason`` may be on missed tokens; ``unknown`` where the ledger lost count."""
LEVELS: Mapping[str, frozenset[str]] = {
    "model": frozenset({"job", "model_name"}),
    "target_engine": frozenset({"job", "target", "engine", "model_name"}),
    "instance_engine": frozenset({"job", "instance", "engine", "model_name"}),
}
"""The labels of what is recorded, by the first part of its name."""
_SCRAPED = frozenset({"job", "instance"})
_ON_PAGE = _SCRAPED | {"target"}
"""The shipped configuration of Prometheus gives engines' own pages the label ``target``."""
_MORE: Mapping[str, frozenset[str]] = {"vllm:prompt_tokens_by_source_total": frozenset({"source"})}


def known_metrics(recorded: Iterable[str] = ()) -> dict[str, Kind]:
    """Every name with its kind; ``recorded`` are the names that rules record."""
    known: dict[str, Kind] = {metric.name: metric.kind for metric in CATALOGUE}
    for added in (*ENGINE_PATCH_CATALOGUE, FIRST_TOKEN):
        parts = ("_bucket", "_sum", "_count") if added.kind == "histogram" else ("",)
        known |= {added.name + part: "gauge" if added.kind == "gauge" else "counter" for part in parts}
    known |= {"up": "gauge"}
    for name, kind in VLLM.items():
        known[name] = kind
        known[other_spelling(name)] = kind
    return known | dict.fromkeys(recorded, "recorded")


def other_spelling(name: str) -> str:
    """A name of vLLM's as some scrapes rename it, and back; any other name as it is."""
    if name.startswith("vllm:"):
        return name.replace("vllm:", "vllm_", 1)
    return re.sub(r"^vllm_", "vllm:", name)


def labels_of(name: str) -> frozenset[str] | None:
    """Labels that series of this name may have; ``None`` where that is not known.

    Labels that a configuration adds are not among them: dashboards that everybody uses cannot count on those.
    """
    level = name.partition(":")[0]
    if level in LEVELS:
        return LEVELS[level]
    if name in _LABELS:
        return _LABELS[name]
    spelt = other_spelling(name) if name.startswith("vllm_") else name
    if spelt not in VLLM or spelt in INFO_SERIES:
        return None
    return _ON_PAGE | {"engine", "model_name"} | _MORE.get(spelt, frozenset()) | _bucket_label(spelt)


def origin_of(name: str) -> Origin | None:
    """Who tells it: the exporter, or an engine's own page; ``None`` where neither does: a chaos run does."""
    level, _, rest = name.partition(":")
    if level in LEVELS:
        return "page" if level == "instance_engine" or rest.startswith("vllm") else "exporter"
    for metric in CATALOGUE:
        if metric.name == name:
            return None if metric.group == "chaos" else "exporter"
    return "page" if name.startswith("vllm") or (name in _LABELS and name != "up") else None


def _bucket_label(name: str) -> frozenset[str]:
    return frozenset({"le"} if name.endswith("_bucket") else ())


def _labels() -> Iterator[tuple[str, frozenset[str]]]:
    yield "up", _ON_PAGE
    for metric in CATALOGUE:
        yield metric.name, _SCRAPED | frozenset(metric.labels)
    for added in (*ENGINE_PATCH_CATALOGUE, FIRST_TOKEN):
        labels = _ON_PAGE | frozenset((*ENGINE_PATCH_LABELS, *added.labels))
        for part in ("_bucket", "_sum", "_count") if added.kind == "histogram" else ("",):
            yield added.name + part, labels | _bucket_label(added.name + part)


_LABELS: Mapping[str, frozenset[str]] = dict(_labels())
