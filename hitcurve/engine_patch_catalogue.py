"""Every metric that the engine patch adds to an engine's own page: the one list of them.

``hitcurve_engine.metrics`` takes its families from here, dashboards and rules take the names,
``docs/engine_metrics.md`` is checked against it. Every sample carries ``engine`` (data-parallel rank) and
``model_name`` as vLLM's own series do. ``adapter`` is empty for the base model, and ``other`` for the adapters
beyond the limit.
"""

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["ENGINE_PATCH_CATALOGUE", "ENGINE_PATCH_LABELS", "FIRST_TOKEN", "EnginePatchMetric"]

Kind = Literal["counter", "gauge", "histogram"]
Merge = Literal["sum", "min", "max"]

ENGINE_PATCH_LABELS: Final = ("engine", "model_name")
_SECONDS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
_REUSES: Final = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_LOOKUPS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


@dataclass(frozen=True, slots=True)
class EnginePatchMetric:
    """One family. ``labels`` come after ``ENGINE_PATCH_LABELS``; ``buckets`` are a histogram's upper bounds.

    ``merge`` says how two processes that report the same gauge are joined.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Merge = "sum"


def _counter(name: str, help: str, *labels: str) -> EnginePatchMetric:
    return EnginePatchMetric(f"hitcurve_engine_{name}_total", "counter", help, labels)


def _gauge(name: str, help: str, merge: Merge = "sum", *labels: str) -> EnginePatchMetric:
    return EnginePatchMetric(f"hitcurve_engine_{name}", "gauge", help, labels, merge=merge)


def _histogram(name: str, help: str, buckets: tuple[float, ...]) -> EnginePatchMetric:
    return EnginePatchMetric(f"hitcurve_engine_{name}", "histogram", help, ("adapter",), buckets)


ENGINE_PATCH_CATALOGUE: Final[tuple[EnginePatchMetric, ...]] = (
    _counter("requests", "Finished requests that were scheduled after a lookup.", "adapter"),
    _counter("query_tokens", "Tokens looked up by finished requests.", "adapter"),
    _counter("hit_tokens", "Tokens found in the engine's own cache by finished requests.", "adapter"),
    _counter(
        "stale_hit_tokens",
        "Of the hit tokens those in blocks that other weights of the same adapter computed.",
        "adapter",
    ),
    _counter(
        "miss_tokens",
        "Query tokens of finished requests that were not found, by reason; hits + misses = queries.",
        "adapter",
        "reason",
    ),
    _counter(
        "isolated_tokens",
        "Miss tokens of reason isolated, by the kind of key.",
        "adapter",
        "key",
    ),
    _counter("skipped_requests", "Requests that may not read the cache; neither queries nor misses."),
    _counter("skipped_tokens", "Tokens of requests that may not read the cache."),
    _counter("external_query_tokens", "Tokens asked of a cache outside the engine."),
    _counter("external_hit_tokens", "Tokens found in a cache outside the engine; not among the hit tokens."),
    _counter("preemptions", "Preemptions of running requests."),
    _counter("recompute_query_tokens", "Tokens looked up again after preemptions; in no hit rate."),
    _counter("recompute_hit_tokens", "Tokens found again after preemptions; in no hit rate."),
    _counter("stored_blocks", "Blocks that entered the cache."),
    _counter(
        "evicted_blocks",
        "Cached blocks that lost their content to make room (capacity) or on the engine's demand (removed).",
        "adapter",
        "reason",
    ),
    _counter("regret_tokens", "Tokens recomputed because their block had been evicted.", "adapter"),
    _counter("resets", "Prefix cache resets that cleared the cache."),
    _counter("refused_resets", "Prefix cache resets that the engine refused."),
    _counter("cleared_blocks", "Blocks that resets cleared; not among the evicted ones."),
    _histogram("evicted_block_age_seconds", "Time from caching to eviction of a block.", _SECONDS),
    _histogram("evicted_block_idle_seconds", "Time from last use to eviction of a block.", _SECONDS),
    _histogram("evicted_block_reuses", "How many requests found a block before it was evicted.", _REUSES),
    _histogram("lookups_per_request", "Lookups of a request until it was scheduled.", _LOOKUPS),
    _gauge("cached_blocks", "Blocks that are cached now, each content once."),
    _gauge("duplicate_blocks", "Cached blocks beyond the first with the same content."),
    _gauge("pool_blocks", "Usable blocks of the pool."),
    _gauge("block_size_tokens", "Tokens in one block.", "max"),
    _gauge(
        "hash_root_info",
        "Always 1; replicas with the same fingerprint give the same prefix the same hash.",
        "max",
        "fingerprint",
    ),
    _counter("pool_curve_query_tokens", "Tokens looked up by scheduled requests, where the pool curve is on."),
    _counter(
        "pool_curve_hit_tokens",
        "Of these the tokens that a pool of another size would have found, estimated from a sample of the blocks.",
        "pool",
    ),
    _gauge("pool_curve_sampled_ratio", "Share of the blocks that the estimate follows.", "min", "pools"),
    _gauge("pool_curve_keys", "Blocks that the estimate follows now."),
    _gauge("active", "1 while the patch records, 0 once it switched itself off or ended.", "min"),
    _counter("errors", "The patch's own errors, each of them swallowed, by place.", "place"),
    _counter("events", "Events of the engine that the patch has taken in."),
    _counter("dropped_events", "Events of the engine that the patch did not take in, since its queue was full."),
    _counter("odd_requests", "Finished requests of which something does not add up; their spans say what."),
    _counter("dropped_requests", "Open requests that the ledger gave up for lack of room."),
    _counter("dropped_ghosts", "Gone blocks that the ledger forgot for lack of room; they read compulsory then."),
    _counter("spans", "Spans the collector took."),
    _counter("dropped_spans", "Spans that did not arrive, by reason.", "reason"),
    _counter("overhead_seconds", "CPU seconds of the patch's own threads.", "thread"),
    _gauge("queued_events", "Events that wait for the ledger now."),
    _gauge("open_requests", "Requests that the ledger has seen and that are not finished."),
    _gauge("ghost_blocks", "Gone blocks that the ledger remembers."),
)

FIRST_TOKEN: Final = EnginePatchMetric(
    "hitcurve_engine_first_token_seconds",
    "histogram",
    "Time from the engine's queue to the first token of finished requests, by how much of the prompt was found.",
    ("found",),
    (0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0),
)
"""Not among the others: it is counted in the API server's process, by what vLLM tells there."""
