"""Spans that are over when they are made, so that nothing has to guard or watch them while they grow.

The SDK's tracer takes more than twice as long: locks, a copy and a check of each attribute, processors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["SCOPE", "Begun", "FinishedSpans"]

SCOPE: Final = "hitcurve_engine"
"""The instrumentation scope of our spans."""
_NO_TIME_NS: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Begun:
    """A span that the sampler was asked about: its context, its parent's (or ``None``), what the sampler adds."""

    name: str
    context: Any
    parent: Any
    attributes: Mapping[str, Any]

    @property
    def sampled(self) -> bool:
        """Whether it is to be sent."""
        return bool(self.context.trace_flags.sampled)


class FinishedSpans:
    """Makes spans as the SDK's tracer would, within the limits that the ``OTEL_*`` variables set."""

    def __init__(self, sampler: Any, resource: Any, ids: Any) -> None:
        from opentelemetry import trace
        from opentelemetry.attributes import BoundedAttributes
        from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits
        from opentelemetry.sdk.util import BoundedList
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._trace = trace
        self._bounded_attributes, self._bounded_list = BoundedAttributes, BoundedList
        self._event = Event
        self._span = ReadableSpan
        self._limits = SpanLimits()
        self._scope = InstrumentationScope(SCOPE)
        self._sampler = sampler
        self._resource = resource
        self._ids = ids
        self._random_flag = getattr(trace.TraceFlags, "RANDOM_TRACE_ID", 0)

    def begin(self, name: str, context: Any, marks: Any = None, links: Sequence[Any] = ()) -> Begun:
        """Ask the sampler. ``context`` holds the parent, if there is one; ``marks`` are attributes it may read."""
        above = self._trace.get_current_span(context).get_span_context()
        parent = above if above.is_valid else None
        trace_id = self._ids.generate_trace_id() if parent is None else parent.trace_id
        chosen = self._sampler.should_sample(context, trace_id, name, self._trace.SpanKind.INTERNAL, marks, links)
        flags = self._random_flag if parent is None else parent.trace_flags & self._random_flag
        if chosen.decision.is_sampled():
            flags |= self._trace.TraceFlags.SAMPLED
        made = self._trace.SpanContext(
            trace_id,
            self._ids.generate_span_id(),
            is_remote=False,
            trace_flags=self._trace.TraceFlags(flags),
            trace_state=chosen.trace_state,
        )
        return Begun(name, made, parent, chosen.attributes or {})

    def below(self, begun: Begun) -> Any:
        """The context of what that span caused."""
        return self._trace.set_span_in_context(self._trace.NonRecordingSpan(begun.context))

    def end(
        self,
        begun: Begun,
        times_ns: tuple[int, int],
        attributes: Mapping[str, Any],
        preempted_at_ns: Sequence[int] = (),
        links: Sequence[Any] = (),
    ) -> Any:
        """The span, from the first to the second of the times (nanoseconds since the epoch).

        Raises ValueError for a time that OTLP cannot say: a batch with such a span could not be sent.
        """
        for at_ns in (*times_ns, *preempted_at_ns):
            if not 0 <= at_ns < _NO_TIME_NS:
                raise ValueError(f"{at_ns} ns since the epoch is no time")
        events = [self._event("preempted", timestamp=at) for at in preempted_at_ns]
        return self._span(
            begun.name,
            begun.context,
            begun.parent,
            self._resource,
            self._attributes({**begun.attributes, **attributes}, cleaned=not begun.attributes),
            self._sequence(events, self._limits.max_events),
            self._sequence(links, self._limits.max_links),
            start_time=times_ns[0],
            end_time=times_ns[1],
            instrumentation_scope=self._scope,
        )

    def link(self, context: Any, attributes: Mapping[str, Any]) -> Any:
        """A link to a span, within the limits."""
        limits = self._limits
        # Wrapped because encoders up to OpenTelemetry 1.26 ask the attributes of a link how many were dropped.
        within = self._bounded_attributes(
            limits.max_link_attributes, attributes, max_value_len=limits.max_attribute_length
        )
        return self._trace.Link(context, within)

    def _attributes(self, attributes: Mapping[str, Any], cleaned: bool) -> Mapping[str, Any]:
        """Within the limits. What a sampler adds may be of any type and has to be cleaned first; ours does not."""
        most, longest = self._limits.max_span_attributes, self._limits.max_span_attribute_length
        if cleaned and longest is None and (most is None or len(attributes) <= most):
            return attributes
        within: Mapping[str, Any] = self._bounded_attributes(most, attributes, max_value_len=longest)
        return within

    def _sequence(self, values: Sequence[Any], most: int | None) -> Sequence[Any]:
        if most is None or len(values) <= most:
            return values
        within: Sequence[Any] = self._bounded_list.from_seq(most, values)
        return within
