"""Encode our spans for OTLP in a third of the time: most attributes of a request are those of requests before it.

A message in Protobuf's wire format may be given in pieces, one after the other, which are then merged. So an
attribute is encoded once, as a span that says nothing else, and kept as bytes.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from hitcurve_engine.spans.finished_spans import SCOPE

__all__ = ["BatchEncoder"]

_MOST_REMEMBERED: Final = 8192
"""Encoded attributes, of about 60 bytes each."""
_LONGEST_REMEMBERED: Final = 128
"""Characters: names of models and adapters may be of any length."""
_ALWAYS_NEW: Final = frozenset({"hitcurve.request.id"})
_NUMBERS: Final = frozenset({int, bool})
"""No floats: they hardly recur, and -0.0 would be taken for 0.0."""


class BatchEncoder:
    """Stands where an OTLP exporter has the SDK's ``encode_spans``; gives an equal message.

    The first span of a batch goes through ``standard``, so that resource and scope are encoded as they always are.
    So do batches with spans of others, and spans that say something out of the ordinary: the SDK leaves out what
    cannot be encoded, such as half of a surrogate pair, and says so in the log.
    """

    def __init__(self, standard: Callable[[Sequence[Any]], Any]) -> None:
        from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
        from opentelemetry.proto.trace.v1.trace_pb2 import Span, SpanFlags, Status

        self._standard = standard
        self._any, self._array, self._pair = AnyValue, ArrayValue, KeyValue
        self._span = Span
        self._no_status = Status()
        self._flags = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
        self._remote_flag = SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
        self._remembered = lru_cache(_MOST_REMEMBERED, typed=True)(self._attribute)

    def __call__(self, spans: Sequence[Any]) -> Any:
        """See ``opentelemetry.exporter.otlp.proto.common.trace_encoder.encode_spans``."""
        if not spans or not all(
            span.instrumentation_scope and span.instrumentation_scope.name == SCOPE for span in spans
        ):
            return self._standard(spans)
        request = self._standard(spans[:1])
        messages = request.resource_spans[0].scope_spans[0].spans
        for number, span in enumerate(spans[1:], 1):
            try:
                self._add(span, messages)
            except Exception:
                del messages[number:]
                messages.extend(self._standard([span]).resource_spans[0].scope_spans[0].spans)
        return request

    def _add(self, span: Any, spans: Any) -> None:
        context, parent = span.get_span_context(), span.parent
        message = spans.add(
            trace_id=context.trace_id.to_bytes(16, "big"),
            span_id=context.span_id.to_bytes(8, "big"),
            parent_span_id=parent.span_id.to_bytes(8, "big") if parent is not None else None,
            name=span.name,
            kind=self._span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=span.start_time,
            end_time_unix_nano=span.end_time,
            events=[self._span.Event(name=event.name, time_unix_nano=event.timestamp) for event in span.events],
            links=[self._link(link) for link in span.links],
            status=self._no_status,
            dropped_attributes_count=span.dropped_attributes,
            dropped_events_count=span.dropped_events,
            dropped_links_count=span.dropped_links,
            flags=self._flags_of(parent),
        )
        if context.trace_state:
            message.trace_state = ",".join(f"{key}={value}" for key, value in context.trace_state.items())
        message.MergeFromString(
            b"".join(
                [
                    self._remembered(name, value)
                    if value.__class__ in _NUMBERS or _may_recur(name, value)
                    else self._attribute(name, value)
                    for name, value in span.attributes.items()
                ]
            )
        )

    def _link(self, link: Any) -> Any:
        return self._span.Link(
            trace_id=link.context.trace_id.to_bytes(16, "big"),
            span_id=link.context.span_id.to_bytes(8, "big"),
            attributes=[self._pair(key=name, value=self._value(value)) for name, value in link.attributes.items()],
            dropped_attributes_count=link.attributes.dropped,
            flags=self._flags_of(link.context),
        )

    def _flags_of(self, context: Any) -> int:
        remote = context is not None and context.is_remote
        return int(self._flags | self._remote_flag if remote else self._flags)

    def _attribute(self, name: str, value: Any) -> bytes:
        pair = self._pair(key=name, value=self._value(value))
        encoded: bytes = self._span(attributes=[pair]).SerializeToString()
        return encoded

    def _value(self, value: Any) -> Any:
        if isinstance(value, bool):
            return self._any(bool_value=value)
        if isinstance(value, str):
            return self._any(string_value=value)
        if isinstance(value, int):
            return self._any(int_value=value)
        if isinstance(value, float):
            return self._any(double_value=value)
        if isinstance(value, tuple):
            return self._any(array_value=self._array(values=[self._value(one) for one in value]))
        raise TypeError(f"{type(value).__name__} is left to the SDK")


def _may_recur(name: str, value: Any) -> bool:
    if value.__class__ is str:
        return len(value) <= _LONGEST_REMEMBERED and name not in _ALWAYS_NEW
    # Only of text, since (1,) and (True,) are equal.
    return (
        value.__class__ is tuple
        and all(one.__class__ is str for one in value)
        and sum(map(len, value)) <= _LONGEST_REMEMBERED
    )
