"""The sink that counts what the recorder hands out, and publishes it about once a second."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from hitcurve_engine.ledger import MISS_REASONS, Outcome, Regret, Totals
from hitcurve_engine.metrics.adapter_labels import AdapterLabels
from hitcurve_engine.metrics.publishing import make_publishers
from hitcurve_engine.metrics.tally import Snapshot, Tally
from hitcurve_engine.pool_curve import PoolCurveSums
from hitcurve_engine.recording.sinks import CacheReset, EngineFacts, EvictionBatch, FinishedRequest, PatchStatus
from hitcurve_engine.settings import read_settings
from hitcurve_engine.spans.span_counts import SpanCounts, span_counts

__all__ = ["MetricsSink", "Publisher", "create"]

_log = logging.getLogger("hitcurve.engine")

UNKNOWN_REASON: Final = "unknown"
"""Misses of requests whose block keys the ledger could not know."""
_MOST_PLACES: Final = 100
_OF_TOTALS: Final = {
    "skipped_requests": "skipped_requests",
    "skipped_tokens": "skipped_tokens",
    "external_query_tokens": "external_query_tokens",
    "external_hit_tokens": "external_hit_tokens",
    "preemptions": "preemptions",
    "recompute_query_tokens": "recompute_query_tokens",
    "recompute_hit_tokens": "recompute_hit_tokens",
    "stored_blocks": "stored_blocks",
    "resets": "resets",
    "refused_resets": "refused_resets",
    "cleared_blocks": "cleared_blocks",
    "odd_requests": "anomalies",
    "dropped_requests": "requests_dropped",
    "dropped_ghosts": "ghosts_dropped",
}
"""Counters that the ledger keeps itself, by the name of its field."""


class Publisher(Protocol):
    """Brings the numbers to where somebody reads them."""

    def publish(self, snapshot: Snapshot) -> None:
        """The numbers as they are now."""

    def close(self) -> None:
        """The engine ends; the last snapshot has been published."""


def create(facts: EngineFacts) -> "MetricsSink | None":
    """The sink of an engine, unless it is switched off or nobody could read it."""
    settings = read_settings(os.environ)
    if not settings.metrics:
        return None
    tally = Tally((str(facts.engine_index or 0), facts.model_name or ""))
    publishers = make_publishers(tally, facts, settings, os.environ)
    if not publishers:
        return None
    return MetricsSink(tally, facts, AdapterLabels(settings.metrics_adapters), publishers)


class MetricsSink:
    """Counts into ``tally``. ``spans`` gives what the span sink of the same engine counts."""

    def __init__(
        self,
        tally: Tally,
        facts: EngineFacts,
        adapters: AdapterLabels,
        publishers: Sequence[Publisher],
        spans: Callable[[EngineFacts], SpanCounts | None] = span_counts,
    ) -> None:
        self._tally = tally
        self._facts = facts
        self._adapters = adapters
        self._publishers = publishers
        self._spans = spans
        self._seen: set[str] = set()
        with tally.lock:
            self._adapter(None)
            tally.set("hitcurve_engine_pool_blocks", facts.pool_blocks)
            tally.set("hitcurve_engine_block_size_tokens", facts.block_size)
            tally.set("hitcurve_engine_active", 1)
            if facts.hash_root is not None:
                tally.set("hitcurve_engine_hash_root_info", 1, facts.hash_root)

    def request_finished(self, finished: FinishedRequest) -> None:
        """See ``Sink``."""
        outcome = finished.outcome
        if outcome.query_tokens is None or outcome.hit_tokens is None:
            return
        tally = self._tally
        with tally.lock:
            adapter = self._adapter(outcome.adapter)
            tally.add("hitcurve_engine_requests_total", 1, adapter)
            tally.add("hitcurve_engine_query_tokens_total", outcome.query_tokens, adapter)
            tally.add("hitcurve_engine_hit_tokens_total", outcome.hit_tokens, adapter)
            if outcome.stale_hit_tokens:
                tally.add("hitcurve_engine_stale_hit_tokens_total", outcome.stale_hit_tokens, adapter)
            for reason, tokens in _misses(outcome).items():
                if tokens:
                    tally.add("hitcurve_engine_miss_tokens_total", tokens, adapter, reason)
            for key, tokens in outcome.isolated_by.items():
                if tokens:
                    tally.add("hitcurve_engine_isolated_tokens_total", tokens, adapter, key)
            tally.observe("hitcurve_engine_lookups_per_request", [outcome.lookups], adapter)

    def evicted(self, batch: EvictionBatch) -> None:
        """See ``Sink``."""
        reason = "removed" if batch.caused_by is None else "capacity"
        tally = self._tally
        with tally.lock:
            for name in {eviction.adapter for eviction in batch.evictions}:
                evictions = [eviction for eviction in batch.evictions if eviction.adapter == name]
                adapter = self._adapter(name)
                tally.add("hitcurve_engine_evicted_blocks_total", len(evictions), adapter, reason)
                tally.observe("hitcurve_engine_evicted_block_age_seconds", [e.age_s for e in evictions], adapter)
                tally.observe("hitcurve_engine_evicted_block_idle_seconds", [e.idle_s for e in evictions], adapter)
                tally.observe("hitcurve_engine_evicted_block_reuses", [e.reuses for e in evictions], adapter)

    def regretted(self, regret: Regret) -> None:
        """See ``Sink``."""
        with self._tally.lock:
            adapter = self._adapter(regret.adapter)
            self._tally.add("hitcurve_engine_regret_tokens_total", regret.tokens, adapter)

    def cache_reset(self, reset: CacheReset) -> None:
        """See ``Sink``. The totals count them."""

    def tick(self, status: PatchStatus, totals: Totals) -> None:
        """Takes over what others count, and publishes. A failing publisher does not keep the others from it."""
        with self._tally.lock:
            self._take_status(status)
            self._take_pool_curve(status.pool_curve)
            for name, field in _OF_TOTALS.items():
                self._tally.set(f"hitcurve_engine_{name}_total", getattr(totals, field))
            self._take_spans()
        self._publish()

    def close(self, deadline_s: float) -> None:
        """See ``Sink``."""
        with self._tally.lock:
            self._take_spans()
            self._tally.set("hitcurve_engine_active", 0)
        try:
            self._publish()
        finally:
            for publisher in self._publishers:
                publisher.close()

    def _publish(self) -> None:
        snapshot = self._tally.snapshot()
        failed: Exception | None = None
        for publisher in self._publishers:
            try:
                publisher.publish(snapshot)
            except Exception as error:
                failed = error
        if failed is not None:
            raise failed

    def _take_status(self, status: PatchStatus) -> None:
        tally = self._tally
        tally.set("hitcurve_engine_active", int(status.active))
        tally.set("hitcurve_engine_cached_blocks", status.cached_keys)
        tally.set("hitcurve_engine_duplicate_blocks", status.duplicate_blocks)
        tally.set("hitcurve_engine_ghost_blocks", status.ghost_keys)
        tally.set("hitcurve_engine_open_requests", status.open_requests)
        tally.set("hitcurve_engine_queued_events", status.queued_events)
        tally.set("hitcurve_engine_events_total", status.events)
        tally.set("hitcurve_engine_dropped_events_total", status.dropped_events)
        tally.set("hitcurve_engine_overhead_seconds_total", status.busy_s, "recorder")
        tally.set("hitcurve_engine_overhead_seconds_total", status.hand_over_s, "hand_over")
        for place, errors in list(status.errors.items())[:_MOST_PLACES]:
            tally.set("hitcurve_engine_errors_total", errors, place)

    def _take_pool_curve(self, curve: PoolCurveSums | None) -> None:
        if curve is None:
            return
        tally = self._tally
        tally.set("hitcurve_engine_pool_curve_query_tokens_total", curve.query_tokens)
        for size, tokens in curve.hit_tokens.items():
            tally.set("hitcurve_engine_pool_curve_hit_tokens_total", tokens, size)
        tally.set("hitcurve_engine_pool_curve_keys", curve.keys)
        tally.set("hitcurve_engine_pool_curve_sampled_ratio", curve.sampled_share, "limited")
        tally.set("hitcurve_engine_pool_curve_sampled_ratio", curve.unlimited_sampled_share, "unlimited")

    def _take_spans(self) -> None:
        counts = self._spans(self._facts)
        if counts is None:
            return
        tally = self._tally
        tally.set("hitcurve_engine_spans_total", counts.exported)
        for reason, spans in counts.dropped.items():
            tally.set("hitcurve_engine_dropped_spans_total", spans, reason)
        tally.set("hitcurve_engine_overhead_seconds_total", counts.busy_s, "spans")

    def _adapter(self, name: str | None) -> str:
        """The label; every series of an adapter begins at 0 when it is first met."""
        label = self._adapters.of(name)
        if label not in self._seen:
            self._seen.add(label)
            for counter in ("requests", "query_tokens", "hit_tokens", "stale_hit_tokens", "regret_tokens"):
                self._tally.add(f"hitcurve_engine_{counter}_total", 0, label)
            for reason in (*MISS_REASONS, UNKNOWN_REASON):
                self._tally.add("hitcurve_engine_miss_tokens_total", 0, label, reason)
            for key in ("adapter", "salt", "image"):
                self._tally.add("hitcurve_engine_isolated_tokens_total", 0, label, key)
            for reason in ("capacity", "removed"):
                self._tally.add("hitcurve_engine_evicted_blocks_total", 0, label, reason)
            for part in ("age_seconds", "idle_seconds", "reuses"):
                self._tally.observe(f"hitcurve_engine_evicted_block_{part}", [], label)
            self._tally.observe("hitcurve_engine_lookups_per_request", [], label)
        return label


def _misses(outcome: Outcome) -> dict[str, int]:
    if outcome.miss_tokens is not None:
        return {str(reason): tokens for reason, tokens in outcome.miss_tokens.items()}
    return {UNKNOWN_REASON: (outcome.query_tokens or 0) - (outcome.hit_tokens or 0)}
