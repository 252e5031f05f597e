"""The sink that gives spans away."""

import logging
import os
from collections import OrderedDict
from typing import Final

from hitcurve_engine.ledger import Outcome, Regret, Totals
from hitcurve_engine.recording.sinks import CacheReset, EngineFacts, EvictionBatch, FinishedRequest, PatchStatus
from hitcurve_engine.settings import read_settings
from hitcurve_engine.spans.delivery import Delivery, queue_limits
from hitcurve_engine.spans.eviction_summary import EvictionSummary
from hitcurve_engine.spans.otlp import finished_spans, is_wanted, make_exporter
from hitcurve_engine.spans.span_counts import new_span_counts
from hitcurve_engine.spans.span_maker import RequestItem, SpanMaker

__all__ = ["SpanSink", "create"]

_log = logging.getLogger("hitcurve.engine")
_MOST_OPEN: Final = 10_000


def create(facts: EngineFacts) -> "SpanSink | None":
    """The sink of an engine, where an OTLP endpoint is known and OpenTelemetry is installed."""
    settings = read_settings(os.environ)
    if not settings.spans or not is_wanted(facts, os.environ):
        return None
    try:
        exporter = make_exporter(facts, os.environ)
        maker = SpanMaker(finished_spans(facts, os.environ), facts)
    except (ImportError, ValueError) as error:
        _log.warning("hitcurve: spans are off (%s)", error)
        return None
    delivery = Delivery(maker.make, exporter, new_span_counts(facts), queue_limits(os.environ))
    return SpanSink(delivery, settings.spans_keep_capacity, settings.spans_keep_stale)


class SpanSink:
    """Queues one item per request, per eviction that nobody's request caused, and per reset.

    ``keep_capacity`` is the number of ``capacity`` miss tokens from which a request's span is always kept;
    ``keep_stale``: so is that of a request with stale hits.
    """

    def __init__(self, delivery: Delivery, keep_capacity: int | None = None, keep_stale: bool = True) -> None:
        self._delivery = delivery
        self._keep_capacity = keep_capacity
        self._keep_stale = keep_stale
        self._evictions: OrderedDict[str, EvictionSummary] = OrderedDict()
        """What the allocations of requests under way have evicted so far."""

    def request_finished(self, finished: FinishedRequest) -> None:
        """See ``Sink``."""
        evictions = self._evictions.pop(finished.outcome.request_id, None)
        self._delivery.offer(RequestItem(finished, evictions, self._kept(finished.outcome)))

    def evicted(self, batch: EvictionBatch) -> None:
        """See ``Sink``."""
        if batch.caused_by is None:
            self._delivery.offer(EvictionSummary(batch))
            return
        summary = self._evictions.get(batch.caused_by)
        if summary is not None:
            summary.add(batch)
            return
        self._evictions[batch.caused_by] = EvictionSummary(batch)
        if len(self._evictions) > _MOST_OPEN:
            self._delivery.refuse(self._evictions.popitem(last=False)[1])

    def regretted(self, regret: Regret) -> None:
        """See ``Sink``. The ``capacity`` misses of the request say it."""

    def cache_reset(self, reset: CacheReset) -> None:
        """See ``Sink``."""
        self._delivery.offer(reset)

    def tick(self, status: PatchStatus, totals: Totals) -> None:
        """See ``Sink``."""

    def close(self, deadline_s: float) -> None:
        """See ``Sink``."""
        self._delivery.close(deadline_s)

    def _kept(self, outcome: Outcome) -> str | None:
        if self._keep_stale and outcome.stale_hit_tokens:
            return "stale"
        if self._keep_capacity is None or outcome.miss_tokens is None:
            return None
        return "capacity" if outcome.miss_tokens["capacity"] >= self._keep_capacity else None
