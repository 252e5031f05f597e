"""Every metric hitcurve exposes: name, type, labels, help. The one list.

The exporter takes its families from here, and a chaos run its gauge; dashboards and rules take the names,
``docs/metrics.md`` is checked against it. Every sample of a target carries, besides the labels named here, the
labels its configuration adds.
A metric that has no value has no sample; it is never 0 instead.

Longer than 300 lines because it is one list.
"""

from dataclasses import dataclass
from typing import Final, Literal

__all__ = [
    "CATALOGUE",
    "ENGINE_LABELS",
    "GROUPS",
    "Metric",
    "metric_named",
]

Group = Literal["hit rates", "traffic", "curve", "engine", "KV events", "scraping", "fleet", "exporter", "chaos"]

GROUPS: Final[tuple[Group, ...]] = (
    "hit rates",
    "traffic",
    "curve",
    "engine",
    "KV events",
    "scraping",
    "fleet",
    "exporter",
    "chaos",
)
ENGINE_LABELS: Final = ("target", "engine", "model_name")
"""Labels of everything said about one engine; ``model_name`` is absent where the page names no model."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family. ``name`` is the name of its samples; counters end in ``_total``."""

    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    help: str
    group: Group


def _engine(group: Group, kind: Literal["gauge", "counter"], name: str, help: str, *labels: str) -> Metric:
    return Metric(name, kind, (*ENGINE_LABELS, *labels), help, group)


def _kv_events(kind: Literal["gauge", "counter"], name: str, help: str, *labels: str) -> Metric:
    """``engine`` is the data-parallel rank."""
    return Metric(name, kind, ("target", "engine", *labels), help, "KV events")


CATALOGUE: Final[tuple[Metric, ...]] = (
    _engine(
        "hit rates",
        "gauge",
        "hitcurve_hit_rate_ratio",
        "Rate-based hit rate: increase of hit tokens / increase of query tokens over the window; "
        "absent without traffic.",
        "window",
    ),
    _engine(
        "hit rates",
        "gauge",
        "hitcurve_window_covered_seconds",
        "Seconds of the window that were watched; until the whole is, a hit rate is that of fewer seconds.",
        "window",
    ),
    _engine(
        "hit rates",
        "gauge",
        "hitcurve_request_window_hit_rate_ratio",
        "Hit rate over the last N requests, as vLLM's log line shows it; it lags by N / request rate.",
    ),
    _engine(
        "hit rates",
        "gauge",
        "hitcurve_request_window_requests",
        "Requests the request window holds now; below N until N requests were seen.",
    ),
    _engine(
        "hit rates",
        "gauge",
        "hitcurve_request_window_lag_seconds",
        "How long a change needs to pass through the request window: N / request rate.",
    ),
    _engine(
        "hit rates",
        "gauge",
        "hitcurve_cumulative_hit_rate_ratio",
        "Hit tokens / query tokens since the engine started; hardly moves once the engine is old.",
    ),
    _engine(
        "hit rates",
        "gauge",
        "hitcurve_prefill_speedup_ratio",
        "First-order prefill speed-up 1 / (1 - h), h being the rate-based hit rate of the window.",
        "window",
    ),
    _engine(
        "traffic",
        "counter",
        "hitcurve_query_tokens_total",
        "Tokens looked up in the prefix cache since watching began, over restarts.",
    ),
    _engine(
        "traffic",
        "counter",
        "hitcurve_hit_tokens_total",
        "Tokens found in the prefix cache since watching began, over restarts.",
    ),
    _engine(
        "traffic",
        "counter",
        "hitcurve_requests_total",
        "Requests whose prefill was done since watching began, over restarts.",
    ),
    _engine("traffic", "gauge", "hitcurve_running_requests", "Requests that run now."),
    _engine("traffic", "gauge", "hitcurve_waiting_requests", "Requests that wait now."),
    _engine(
        "curve",
        "gauge",
        "hitcurve_curve_state",
        "1 for the state the hit rate curve is in, 0 for every other state; absent while nothing tells.",
        "state",
    ),
    _engine(
        "curve",
        "gauge",
        "hitcurve_curve_state_since_timestamp_seconds",
        "When the curve entered its state, Unix time.",
    ),
    _engine(
        "curve",
        "gauge",
        "hitcurve_curve_cause",
        "1 for the probable cause of the state, 0 for every other cause; all 0 where none is named.",
        "cause",
    ),
    _engine(
        "engine",
        "counter",
        "hitcurve_engine_restarts_total",
        "Restarts of the engine seen since watching began.",
    ),
    _engine(
        "engine",
        "counter",
        "hitcurve_cache_resets_total",
        "Prefix cache resets seen or marked since watching began.",
    ),
    _engine(
        "engine",
        "counter",
        "hitcurve_preemptions_total",
        "Requests preempted since watching began, over restarts.",
    ),
    _engine(
        "engine",
        "counter",
        "hitcurve_evicted_blocks_total",
        "Cached blocks evicted since watching began, over restarts; absent where the engine does not count them.",
    ),
    _engine(
        "engine",
        "gauge",
        "hitcurve_kv_usage_ratio",
        "Share of the KV pool that running requests hold; idle cached blocks are not counted.",
    ),
    _engine("engine", "gauge", "hitcurve_capacity_tokens", "Tokens the KV pool holds."),
    _engine("engine", "gauge", "hitcurve_block_size_tokens", "Tokens in one block of the prefix cache."),
    _engine(
        "engine",
        "gauge",
        "hitcurve_min_reusable_prefix_tokens",
        "Shortest prefix the engine can find again; shorter ones never hit.",
    ),
    _kv_events(
        "counter",
        "hitcurve_kv_events_stored_blocks_total",
        "Blocks stored since watching began, as the engine's KV events tell; each copy of a block counts.",
        "tier",
    ),
    _kv_events(
        "counter",
        "hitcurve_kv_events_removed_blocks_total",
        "Blocks removed since watching began, by eviction nearly always; each copy of a block counts.",
        "tier",
    ),
    _kv_events(
        "gauge",
        "hitcurve_kv_events_live_blocks",
        "Different blocks that can be found now; absent where events were lost.",
        "tier",
    ),
    _kv_events(
        "gauge",
        "hitcurve_kv_events_duplicate_blocks",
        "Copies of blocks beyond the first, memory that holds nothing new; absent where events were lost.",
        "tier",
    ),
    _kv_events(
        "gauge",
        "hitcurve_kv_events_duplicate_hashes",
        "Blocks of which there is more than one copy; absent where events were lost.",
        "tier",
    ),
    _kv_events(
        "counter", "hitcurve_kv_events_clears_total", "Times that all blocks were cleared since watching began."
    ),
    _kv_events(
        "counter",
        "hitcurve_kv_events_unmatched_removals_total",
        "Removals of blocks that were never stored although no event was lost.",
    ),
    _kv_events("counter", "hitcurve_kv_events_batches_total", "Batches of events taken since watching began."),
    _kv_events(
        "counter",
        "hitcurve_kv_events_gaps_total",
        "Times that numbers of batches were left out since watching began.",
    ),
    _kv_events(
        "counter",
        "hitcurve_kv_events_missed_batches_total",
        "Batches that did not arrive by themselves since watching began.",
    ),
    _kv_events("counter", "hitcurve_kv_events_replayed_batches_total", "Missed batches that a replay brought."),
    _kv_events("counter", "hitcurve_kv_events_refused_messages_total", "Messages that are no batch of events."),
    _kv_events(
        "counter",
        "hitcurve_kv_events_publisher_restarts_total",
        "Times that the publisher began anew since watching began.",
    ),
    _kv_events("gauge", "hitcurve_kv_events_connected", "1 while the publisher is there."),
    _kv_events(
        "gauge",
        "hitcurve_kv_events_complete",
        "1 while what the cache holds is known for certain from its events.",
    ),
    _kv_events(
        "gauge",
        "hitcurve_kv_events_last_batch_timestamp_seconds",
        "When the newest batch arrived, Unix time; absent before the first.",
    ),
    Metric("hitcurve_up", "gauge", ("target",), "1 if the last scrape of the target was good.", "scraping"),
    Metric(
        "hitcurve_scrape_duration_seconds",
        "gauge",
        ("target",),
        "How long the last scrape of the target took.",
        "scraping",
    ),
    Metric(
        "hitcurve_scrape_body_bytes",
        "gauge",
        ("target",),
        "Size of the last page of the target, uncompressed.",
        "scraping",
    ),
    Metric(
        "hitcurve_scrape_errors_total",
        "counter",
        ("target", "reason"),
        "Scrapes that brought nothing, by reason.",
        "scraping",
    ),
    Metric(
        "hitcurve_scrapes_skipped_total",
        "counter",
        ("target",),
        "Scrapes left out because the one before took longer than the interval.",
        "scraping",
    ),
    Metric(
        "hitcurve_last_success_timestamp_seconds",
        "gauge",
        ("target",),
        "When the target was last scraped well, Unix time; absent before the first time.",
        "scraping",
    ),
    Metric(
        "hitcurve_flags_total",
        "counter",
        ("target", "flag"),
        "Scrapes of the target whose page showed something odd, by the name of what was seen.",
        "scraping",
    ),
    Metric(
        "hitcurve_engines_over_limit",
        "gauge",
        ("target",),
        "Engines on the last page of the target beyond max_engines_per_target; they are not shown.",
        "scraping",
    ),
    Metric(
        "hitcurve_fleet_hit_rate_ratio",
        "gauge",
        ("window",),
        "Hit tokens / query tokens over the window, summed over all engines that are up.",
        "fleet",
    ),
    Metric("hitcurve_fleet_engines", "gauge", (), "Engines known now.", "fleet"),
    Metric(
        "hitcurve_fleet_engine_states",
        "gauge",
        ("state",),
        "Engines whose curve is in the state now.",
        "fleet",
    ),
    Metric(
        "hitcurve_model_hit_rate_ratio",
        "gauge",
        ("model_name", "window"),
        "Hit tokens / query tokens over the window, summed over the engines of the model that are up.",
        "fleet",
    ),
    Metric(
        "hitcurve_model_hit_rate_spread_ratio",
        "gauge",
        ("model_name", "window"),
        "How far the hit rates of the model's engines lie apart over the window: standard deviation weighted with "
        "query tokens, 0 where all hit alike; absent where fewer than two had traffic.",
        "fleet",
    ),
    Metric("hitcurve_model_engines", "gauge", ("model_name",), "Engines of the model known now.", "fleet"),
    Metric(
        "hitcurve_target_hit_rate_ratio",
        "gauge",
        ("target", "window"),
        "Hit tokens / query tokens over the window, summed over the engines behind one address.",
        "fleet",
    ),
    Metric(
        "hitcurve_build_info", "gauge", ("version", "python"), "Always 1; its labels say what runs.", "exporter"
    ),
    Metric(
        "hitcurve_exporter_targets",
        "gauge",
        (),
        "Targets that are scraped: configured and discovered ones of this shard.",
        "exporter",
    ),
    Metric(
        "hitcurve_exporter_targets_over_limit",
        "gauge",
        (),
        "Targets that are not scraped because there are more than max_targets.",
        "exporter",
    ),
    Metric(
        "hitcurve_exporter_discovery_failures_total",
        "counter",
        (),
        "Times that a file or address of targets could not be used; its last good targets stay.",
        "exporter",
    ),
    Metric(
        "hitcurve_exporter_interval_seconds",
        "gauge",
        (),
        "Seconds between two scrapes of a target.",
        "exporter",
    ),
    Metric(
        "hitcurve_exporter_internal_errors_total",
        "counter",
        (),
        "Errors inside the exporter; the target they happened on misses its samples, the others are whole.",
        "exporter",
    ),
    Metric(
        "hitcurve_exporter_config_last_reload_successful",
        "gauge",
        (),
        "1 if the configuration was good when it was last read.",
        "exporter",
    ),
    Metric(
        "hitcurve_exporter_config_last_reload_success_timestamp_seconds",
        "gauge",
        (),
        "When a good configuration was last read, Unix time.",
        "exporter",
    ),
    Metric(
        "hitcurve_chaos_active",
        "gauge",
        ("scenario",),
        "1 while the scenario runs, 0 once it ran; a run serves it, so that all of it is absent between runs.",
        "chaos",
    ),
)

_BY_NAME: Final = {metric.name: metric for metric in CATALOGUE}


def metric_named(name: str) -> Metric:
    """The metric of that name; KeyError where the catalogue has none."""
    return _BY_NAME[name]
