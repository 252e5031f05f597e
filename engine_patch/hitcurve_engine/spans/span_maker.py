"""Turns what the recorder handed out into finished spans, on the thread that sends them."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hitcurve_engine.recording.sinks import CacheReset, EngineFacts, FinishedRequest
from hitcurve_engine.spans.attributes import (
    CACHE_READ,
    INPUT_TOKENS,
    KEPT,
    eviction_attributes,
    request_attributes,
    reset_attributes,
)
from hitcurve_engine.spans.eviction_summary import EvictionSummary
from hitcurve_engine.spans.finished_spans import Begun, FinishedSpans

__all__ = ["EVICTION_SPAN", "REQUEST_SPAN", "RESET_SPAN", "RequestItem", "SpanItem", "SpanMaker", "spans_of"]

REQUEST_SPAN: Final = "prefix_cache.request"
EVICTION_SPAN: Final = "prefix_cache.eviction"
RESET_SPAN: Final = "prefix_cache.reset"
_MOST_REMEMBERED: Final = 4096
"""Span contexts of finished requests, so that an eviction can link to whose blocks it took."""
_MOST_LINKS: Final = 32
_MOST_PREEMPTION_EVENTS: Final = 32
_A_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class RequestItem:
    """A finished request, what its allocations evicted, and why its span is kept in any case."""

    finished: FinishedRequest
    evictions: EvictionSummary | None
    kept: str | None


SpanItem = RequestItem | EvictionSummary | CacheReset


def spans_of(item: SpanItem) -> int:
    """How many spans an item becomes, if the sampler wants them."""
    return 2 if isinstance(item, RequestItem) and item.evictions is not None else 1


class SpanMaker:
    """Says what spans there are and what they say. Used by one thread."""

    def __init__(self, spans: FinishedSpans, facts: EngineFacts) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._spans = spans
        self._facts = facts
        self._wall_offset_ns = int(facts.wall_offset_s * 1e9)
        self._nothing = Context()
        """An explicit empty one: the thread's own current span, if any, is none of our business."""
        self._propagator = TraceContextTextMapPropagator()
        self._remembered: OrderedDict[str, Any] = OrderedDict()

    def make(self, item: SpanItem) -> list[Any]:
        """The spans of an item that the sampler wants, ended."""
        if isinstance(item, RequestItem):
            return self._request(item)
        if isinstance(item, EvictionSummary):
            return self._eviction(item, self._nothing)
        at_ns = self._ns(item.at_s)
        return self._made(self._spans.begin(RESET_SPAN, self._nothing), (at_ns, at_ns), reset_attributes(item))

    def _request(self, item: RequestItem) -> list[Any]:
        finished = item.finished
        carrier = finished.context.trace_carrier
        context = self._propagator.extract(carrier) if carrier else self._nothing
        begun = self._spans.begin(REQUEST_SPAN, context, {KEPT: item.kept} if item.kept else None)
        spans: list[Any] = []
        if begun.sampled:
            attributes = request_attributes(finished, self._facts)
            if CACHE_READ in self._facts.vllm_span_attributes:
                attributes.pop(CACHE_READ, None)
                attributes.pop(INPUT_TOKENS, None)
            preempted = [self._ns(at_s) for at_s in finished.context.preempted_at_s[:_MOST_PREEMPTION_EVENTS]]
            spans.append(self._spans.end(begun, self._times(finished), attributes, preempted))
        self._remember(finished.outcome.request_id, begun.context)
        if item.evictions is not None:
            spans += self._eviction(item.evictions, self._spans.below(begun))
        return spans

    def _eviction(self, summary: EvictionSummary, context: Any) -> list[Any]:
        links = []
        largest = sorted(summary.victims.items(), key=lambda victim: -victim[1])
        for request_id, blocks in largest:
            victim = self._remembered.get(request_id)
            if victim is not None and victim.trace_flags.sampled and request_id != summary.caused_by:
                links.append(self._spans.link(victim, {"hitcurve.evicted_blocks": blocks}))
        times_ns = (self._ns(summary.first_at_s), self._ns(summary.last_at_s))
        begun = self._spans.begin(EVICTION_SPAN, context, links=links[:_MOST_LINKS])
        return self._made(begun, times_ns, eviction_attributes(summary), links[:_MOST_LINKS])

    def _made(
        self, begun: Begun, times_ns: tuple[int, int], attributes: dict[str, Any], links: Sequence[Any] = ()
    ) -> list[Any]:
        return [self._spans.end(begun, times_ns, attributes, links=links)] if begun.sampled else []

    def _remember(self, request_id: str, context: Any) -> None:
        self._remembered[request_id] = context
        if len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)

    def _times(self, finished: FinishedRequest) -> tuple[int, int]:
        """From arrival, where that is sane, else from the first lookup; nanoseconds since the epoch."""
        outcome = finished.outcome
        known = [at for at in (outcome.looked_up_at_s, outcome.finished_at_s) if at is not None] or [0.0]
        first, end = self._ns(known[0]), self._ns(known[-1])
        arrived_s = finished.context.arrival_wall_s
        if arrived_s is not None and 0 <= first - arrived_s * 1e9 < _A_DAY_S * 1e9:
            return int(arrived_s * 1e9), end
        return first, end

    def _ns(self, at_s: float) -> int:
        # Added as integers: a float of seconds since the epoch is only good to 240 ns.
        return int(at_s * 1e9) + self._wall_offset_ns
