"""Turns what the recorder handed out into finished spans, on the thread that sends them."""

from collections import OrderedDict
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
    """Makes spans with ``tracer``. Used by one thread."""

    def __init__(self, tracer: Any, facts: EngineFacts) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        self._facts = facts
        self._wall_offset_ns = int(facts.wall_offset_s * 1e9)
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()
        self._remembered: OrderedDict[str, Any] = OrderedDict()

    def make(self, item: SpanItem) -> list[Any]:
        """The spans of an item that the sampler wants, ended."""
        if isinstance(item, RequestItem):
            return self._request(item)
        if isinstance(item, EvictionSummary):
            return self._eviction(item, None)
        span = self._start(RESET_SPAN, None, self._ns(item.at_s))
        return self._ended(span, reset_attributes(item), self._ns(item.at_s))

    def _request(self, item: RequestItem) -> list[Any]:
        finished = item.finished
        carrier = finished.context.trace_carrier
        parent = self._propagator.extract(carrier) if carrier else None
        start, end = self._times(finished)
        span = self._start(REQUEST_SPAN, parent, start, {KEPT: item.kept} if item.kept else None)
        spans = []
        if span.is_recording():
            for at_s in finished.context.preempted_at_s[:_MOST_PREEMPTION_EVENTS]:
                span.add_event("preempted", timestamp=self._ns(at_s))
            attributes = request_attributes(finished, self._facts)
            if CACHE_READ in self._facts.vllm_span_attributes:
                attributes.pop(CACHE_READ, None)
                attributes.pop(INPUT_TOKENS, None)
            spans = self._ended(span, attributes, end)
        self._remember(finished.outcome.request_id, span.get_span_context())
        if item.evictions is not None:
            spans += self._eviction(item.evictions, self._trace.set_span_in_context(span))
        return spans

    def _eviction(self, summary: EvictionSummary, parent: Any) -> list[Any]:
        links = []
        largest = sorted(summary.victims.items(), key=lambda victim: -victim[1])
        for request_id, blocks in largest:
            context = self._remembered.get(request_id)
            if context is not None and context.trace_flags.sampled and request_id != summary.caused_by:
                links.append(self._trace.Link(context, {"hitcurve.evicted_blocks": blocks}))
        start = self._ns(summary.first_at_s)
        span = self._start(EVICTION_SPAN, parent, start, links=links[:_MOST_LINKS])
        if not span.is_recording():
            return []
        return self._ended(span, eviction_attributes(summary), self._ns(summary.last_at_s))

    def _start(self, name: str, parent: Any, start: int, marks: Any = None, links: Any = None) -> Any:
        # An explicit empty context: the thread's own current span, if any, is none of our business.
        context = parent if parent is not None else self._trace.set_span_in_context(self._trace.INVALID_SPAN)
        return self._tracer.start_span(name, context, attributes=marks, links=links, start_time=start)

    def _ended(self, span: Any, attributes: dict[str, Any], end: int) -> list[Any]:
        if not span.is_recording():
            return []
        span.set_attributes(attributes)
        span.end(end)
        return [span] if span.get_span_context().trace_flags.sampled else []

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
