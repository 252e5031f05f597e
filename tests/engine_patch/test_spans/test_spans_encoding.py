"""Spans are encoded as the SDK encodes them, and within the limits that its variables set."""

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider

from hitcurve_engine.ledger import Eviction, Outcome
from hitcurve_engine.recording.sinks import (
    CacheReset,
    EngineFacts,
    EvictionBatch,
    FinishedRequest,
    RequestContext,
)
from hitcurve_engine.spans.encoding import BatchEncoder
from hitcurve_engine.spans.eviction_summary import EvictionSummary
from hitcurve_engine.spans.otlp import finished_spans
from hitcurve_engine.spans.sink import create
from hitcurve_engine.spans.span_maker import RequestItem, SpanItem, SpanMaker

FACTS = EngineFacts(block_size=16, pool_blocks=100, groups=1, pid=4242, wall_offset_s=1.7e9, model_name="tiny")
EXPORTERS = {
    "grpc": "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http.trace_exporter",
}
ENCODER = BatchEncoder(encode_spans)
"""One for all examples, so that what it remembers of one meets the next."""

numbers = st.integers(0, 2**40) | st.integers(0, 3)
seconds = st.floats(0, 1e6)
names = st.sampled_from(["a", "b", "c", "d"])
states = st.sampled_from(["", "vendor=1", "vendor=1,other=x"])
carriers = st.none() | st.builds(
    lambda flags, state: {"traceparent": f"00-{7:032x}-{9:016x}-{flags}", "tracestate": state},
    st.sampled_from(["00", "01", "03"]),
    states,
)
evictions = st.builds(
    Eviction,
    at_s=seconds,
    age_s=seconds,
    idle_s=seconds,
    reuses=numbers,
    depth=st.none() | numbers,
    adapter=st.none() | names,
    evicted_by=names,
    copies_left=numbers,
)


@st.composite
def batches(draw: st.DrawFn, caused_by: str | None) -> EvictionBatch:
    gone = draw(st.lists(evictions, min_size=1, max_size=4))
    victims = draw(st.lists(st.none() | names, min_size=len(gone), max_size=len(gone)))
    return EvictionBatch(draw(seconds), caused_by, tuple(gone), tuple(victims))


@st.composite
def requests(draw: st.DrawFn) -> RequestItem:
    request_id = draw(names)
    outcome = Outcome(
        request_id,
        status="looked_up",
        prompt_tokens=draw(numbers),
        query_tokens=draw(st.none() | numbers),
        hit_tokens=draw(numbers),
        queue_s=draw(st.none() | seconds | st.sampled_from([0.0, 1.0])),
        looked_up_at_s=draw(seconds),
        finished_at_s=draw(seconds),
        isolated_by=draw(st.dictionaries(st.sampled_from(["salt", "adapter"]), numbers)),
        miss_tokens=draw(st.none() | st.fixed_dictionaries({"capacity": numbers, "tail": numbers})),
        adapter=draw(st.none() | names),
    )
    context = RequestContext(
        draw(carriers),
        salted=draw(st.booleans()),
        finish_status=draw(st.none() | st.just("FINISHED_STOPPED")),
        preempted_at_s=draw(st.lists(seconds, max_size=3).map(tuple)),
    )
    summary = draw(st.none() | batches(request_id).map(EvictionSummary))
    return RequestItem(FinishedRequest(outcome, context), summary, draw(st.none() | st.just("stale")))


resets = st.builds(CacheReset, at_s=seconds, ok=st.booleans(), cleared_blocks=numbers)
items = requests() | resets | batches(None).map(EvictionSummary)


def spans_of(items: Sequence[SpanItem]) -> list[Any]:
    maker = SpanMaker(finished_spans(FACTS, os.environ), FACTS)
    return [span for item in items for span in maker.make(item)]


@given(st.lists(items, max_size=6))
def test_a_batch_is_encoded_as_the_sdk_does(some: list[SpanItem]) -> None:
    spans = spans_of(some)
    assert ENCODER(spans) == encode_spans(spans)


LIMITS = {
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "3",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "2",
    "OTEL_SPAN_EVENT_COUNT_LIMIT": "1",
    "OTEL_SPAN_LINK_COUNT_LIMIT": "1",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT": "0",
}


@given(st.lists(items, max_size=6))
def test_so_is_one_whose_spans_are_limited(some: list[SpanItem]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LIMITS.items():
            patch.setenv(name, value)
        spans = spans_of(some)
    assert ENCODER(spans) == encode_spans(spans)


def test_the_limits_of_the_standard_variables_hold(
    monkeypatch: pytest.MonkeyPatch, request_of: Callable[..., FinishedRequest]
) -> None:
    for name, value in LIMITS.items():
        monkeypatch.setenv(name, value)
    gone = Eviction(
        at_s=11.0, age_s=2.0, idle_s=1.0, reuses=0, depth=None, adapter=None, evicted_by="r-3", copies_left=0
    )
    evicted = EvictionSummary(EvictionBatch(11.0, "r-3", (gone, gone), ("r-1", "r-2")))
    request = request_of("r-3", {"preempted_at_s": (10.75, 11.25)}, preemptions=2)
    some = [RequestItem(one, None, None) for one in (request_of("r-1"), request_of("r-2"))]
    spans = spans_of([*some, RequestItem(request, evicted, None)])
    assert ENCODER(spans) == encode_spans(spans)
    *_, made, below = spans
    assert dict(made.attributes) == {
        "hitcurve.miss_tokens.isolated": 0,
        "hitcurve.miss_tokens.tail": 4,
        "hitcurve.miss_tokens.stranded": 0,
    }
    assert (len(made.events), made.dropped_events, len(below.links), below.dropped_links) == (1, 1, 1, 1)
    assert made.dropped_attributes > 0
    assert (dict(below.links[0].attributes), below.links[0].attributes.dropped) == ({}, 1)
    (reset,) = spans_of([CacheReset(1.0, True, 0)])
    assert (dict(reset.attributes), reset.dropped_attributes) == (
        {"hitcurve.reset.done": True, "hitcurve.reset.cleared_blocks": 0},
        0,
    )


def test_what_is_remembered_of_a_number_is_not_taken_for_a_truth() -> None:
    maker = finished_spans(FACTS, os.environ)
    values: list[Any] = ["first", True, 1, False, 0, "1", ("1",), 1.0]
    spans = [maker.end(maker.begin("span", Context()), (1, 2), {"value": value}) for value in values]
    assert ENCODER(spans) == encode_spans(spans)


def test_batches_with_spans_of_others_are_left_to_the_sdk() -> None:
    taken: list[Sequence[Any]] = []
    (ours,) = spans_of([CacheReset(1.0, True, 0)])
    theirs = TracerProvider(shutdown_on_exit=False).get_tracer("vllm").start_span("llm_request")
    theirs.end()
    BatchEncoder(taken.append)([ours, theirs])
    assert taken == [[ours, theirs]]


@pytest.mark.parametrize("protocol", EXPORTERS)
def test_the_exporters_of_both_protocols_encode_so(
    protocol: str,
    receiver: Any,
    to: Callable[[str], EngineFacts],
    request_of: Callable[..., FinishedRequest],
    in_time: Callable[[float], float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []

    def counting(spans: Sequence[Any]) -> Any:
        lengths.append(len(spans))
        return encode_spans(spans)

    monkeypatch.setattr(importlib.import_module(EXPORTERS[protocol]), "encode_spans", counting)
    facts = to(receiver.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    sink = create(facts)
    assert sink is not None
    for number in range(3):
        sink.request_finished(request_of(f"r-{number}"))
    sink.close(in_time(5))
    assert set(lengths) == {1}
