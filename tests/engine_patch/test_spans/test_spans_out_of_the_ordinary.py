"""Values that cannot be encoded, several engines at once, a batch sent again: a bad span costs only itself."""

import importlib
import os
import sys
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import grpc
import pytest
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from hitcurve_engine.recording.sinks import EngineFacts, FinishedRequest
from hitcurve_engine.spans.encoding import BatchEncoder
from hitcurve_engine.spans.otlp import finished_spans
from hitcurve_engine.spans.sink import SpanSink, create
from hitcurve_engine.spans.span_counts import SpanCounts, span_counts

To = Callable[[str], EngineFacts]
Requests = Callable[..., FinishedRequest]
HTTP = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
FACTS = EngineFacts(block_size=16, pool_blocks=100, groups=1, pid=4242, wall_offset_s=1.7e9, model_name="tiny")
CLOSE_S = 5.0
HALF = "sql\ud800"
"""Half of a surrogate pair, which has no UTF-8."""


def started(facts: EngineFacts) -> tuple[SpanSink, SpanCounts]:
    sink, counts = create(facts), span_counts(facts)
    assert sink is not None
    assert counts is not None
    return sink, counts


ODD = {
    "half a pair": HALF,
    "in a tuple": (HALF,),
    "nul": "a\0b",
    "empty": "",
    "empty tuple": (),
    "beyond 64 bit": 2**63,
    "least": -(2**63),
    "not a number": float("nan"),
    "infinite": float("-inf"),
    "bytes": b"ab",
    "list": ["a"],
    "mapping": {"a": 1},
    "of several kinds": (1, "a", True),
    "object": object,
    "long": "x" * 100_000,
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_out_of_the_ordinary_is_encoded_or_left_out_as_the_sdk_does(odd: str) -> None:
    maker, encoder = finished_spans(FACTS, os.environ), BatchEncoder(encode_spans)
    said: list[dict[str, Any]] = [{"a": 1}, {"a": 2, "odd": ODD[odd], "b": 3}, {"odd": "usual"}, {"odd": ODD[odd]}]
    spans = [maker.end(maker.begin("span", Context()), (1, 2), each) for each in said]
    # As bytes: not-a-number is equal to nothing.
    assert encoder(spans).SerializeToString() == encode_spans(spans).SerializeToString()


def test_values_that_are_equal_and_not_the_same_are_kept_apart() -> None:
    maker, encoder = finished_spans(FACTS, os.environ), BatchEncoder(encode_spans)
    values: list[Any] = ["first", (1,), (True,), (1.0,), 0.0, -0.0, type("Odd", (float,), {})(0.0), ()]
    spans = [maker.end(maker.begin("span", Context()), (1, 2), {"value": value}) for value in values]
    assert encoder(spans).SerializeToString() == encode_spans(spans).SerializeToString()


def test_long_names_are_not_remembered() -> None:
    maker, encoder = finished_spans(FACTS, os.environ), BatchEncoder(encode_spans)
    tracemalloc.start()
    try:
        for number in range(100):
            long = f"{number:0100000}"
            said = {"hitcurve.adapter": long, "hitcurve.isolated_by": (long,)}
            spans = [maker.end(maker.begin("span", Context()), (1, 2), said) for _ in range(2)]
            encoder(spans)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2_000_000


def test_a_name_that_cannot_be_encoded_costs_the_name_and_one_line(
    receiver: Any, to: To, request_of: Requests, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = to(receiver.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    sink, counts = started(facts)
    for number, adapter in enumerate([None, HALF, "sql", HALF]):
        sink.request_finished(request_of(str(number), adapter=adapter))
    sink.close(monotonic() + CLOSE_S)
    named = [one.attributes.get("hitcurve.adapter") for one in receiver.spans()]
    assert named == [None, None, "sql", None]
    assert (counts.submitted, counts.exported, sum(counts.dropped.values())) == (4, 4, 0)
    assert len(caplog.records) == 1


def test_what_is_cut_short_is_said_once_at_most(
    receiver: Any, to: To, request_of: Requests, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = to(receiver.url)
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "64")
    sink, counts = started(facts)
    caplog.clear()
    for _ in range(3):
        sink.request_finished(request_of(adapter="x" * 65))
    sink.close(monotonic() + CLOSE_S)
    assert [one.attributes["hitcurve.adapter"] for one in receiver.spans()] == ["x" * 64] * 3
    assert counts.exported == 3
    assert len(caplog.records) <= 1


@pytest.mark.parametrize("never_s", [float("nan"), float("inf"), -2e9, 1e11])
def test_a_time_that_cannot_be_said_costs_the_span_and_is_counted(
    receiver: Any, to: To, request_of: Requests, monkeypatch: pytest.MonkeyPatch, never_s: float
) -> None:
    facts = to(receiver.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    sink, counts = started(facts)
    for bad in ({"finished_at_s": never_s}, {}, {"context": {"preempted_at_s": (never_s,)}}, {}):
        sink.request_finished(request_of(**bad))
    sink.close(monotonic() + CLOSE_S)
    assert (counts.submitted, counts.exported, counts.dropped["error"]) == (4, 2, 2)
    assert len(receiver.spans()) == 2


def test_a_request_id_may_be_a_number(receiver: Any, to: To, request_of: Requests) -> None:
    sink, counts = started(to(receiver.url))
    sink.request_finished(request_of(7))
    sink.close(monotonic() + CLOSE_S)
    assert (receiver.one().attributes["hitcurve.request.id"], counts.exported) == (7, 1)


def test_an_exporter_of_others_and_two_engines_share_one_encoder(
    receiver: Any, to: To, request_of: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(HTTP)
    monkeypatch.setattr(module, "encode_spans", encode_spans)
    facts = to(receiver.url)
    sinks = [
        started(facts)[0],
        started(EngineFacts(16, 100, 1, 4242, 1.7e9, 2, "other", traces_endpoint=receiver.url))[0],
    ]
    assert module.encode_spans._standard is encode_spans
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(module.OTLPSpanExporter(endpoint=receiver.url)))
    for number in range(3):
        for sink in sinks:
            sink.request_finished(request_of(str(number)))
        with provider.get_tracer("vllm.llm_engine").start_as_current_span("llm_request") as span:
            span.set_attribute("value", number)
            span.add_event("first token", {"value": number})
    for sink in sinks:
        sink.close(monotonic() + CLOSE_S)
    provider.shutdown()
    received = receiver.spans()
    by_model = [one.resource.get("hitcurve.engine.model", one.span.name) for one in received]
    assert sorted(by_model) == ["llm_request"] * 3 + ["other"] * 3 + ["tiny"] * 3
    theirs = [one for one in received if one.span.name == "llm_request"]
    assert [one.span.events[0].attributes[0].value.int_value for one in theirs] == [0, 1, 2]


def test_where_the_messages_are_others_the_sdk_encodes(
    receiver: Any, to: To, request_of: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(HTTP)
    monkeypatch.setattr(module, "encode_spans", encode_spans)
    facts = to(receiver.url)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "opentelemetry.proto.trace.v1.trace_pb2", None)
        sink, counts = started(facts)
    assert module.encode_spans is encode_spans
    sink.request_finished(request_of())
    sink.close(monotonic() + CLOSE_S)
    assert counts.exported == len(receiver.spans()) == 1


def test_by_grpc_compressed_and_sent_again_a_batch_is_the_same(
    to: To, request_of: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[list[str]] = []
    again = threading.Event()

    class Servicer(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc]
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
            spans = request.resource_spans[0].scope_spans[0].spans
            taken.append(
                [pair.value.string_value for span in spans for pair in span.attributes if "id" in pair.key]
            )
            if len(taken) == 1:
                context.abort(grpc.StatusCode.UNAVAILABLE, "again")
            again.set()
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    facts = to(f"127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "3")
    sink, counts = started(facts)
    for number in range(3):
        sink.request_finished(request_of(str(number)))
    assert again.wait(30)
    sink.close(monotonic() + 30)
    server.stop(None).wait()
    assert taken == [["0", "1", "2"]] * 2
    assert counts.exported == 3
