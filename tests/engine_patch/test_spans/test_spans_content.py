"""What a span says, as a real collector receives it.

Longer than 300 lines because whole spans are asserted, attribute by attribute.
"""

import os
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from hitcurve_engine.ledger import Eviction
from hitcurve_engine.recording.sinks import CacheReset, EngineFacts, EvictionBatch, FinishedRequest
from hitcurve_engine.spans.otlp import finished_spans
from hitcurve_engine.spans.sink import SpanSink, create
from hitcurve_engine.spans.span_counts import span_counts
from hitcurve_engine.spans.span_maker import SpanMaker

To = Callable[[str], EngineFacts]
Requests = Callable[..., FinishedRequest]

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = {"trace_carrier": {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}}
UNSAMPLED = {"trace_carrier": {"traceparent": f"00-{TRACE}-{PARENT}-00"}}
EPOCH_NS = 1_700_000_000 * 10**9


def sink_of(facts: EngineFacts) -> SpanSink:
    sink = create(facts)
    assert sink is not None
    return sink


def send(facts: EngineFacts, deadline_s: float, *finished: FinishedRequest) -> None:
    sink = sink_of(facts)
    for one in finished:
        sink.request_finished(one)
    sink.close(deadline_s)


def test_a_request_is_one_span_of_the_trace_it_came_with(
    receiver: Any, to: To, request_of: Requests, in_time: Callable[[float], float]
) -> None:
    context = SAMPLED | {
        "arrival_wall_s": 1_700_000_009.5,
        "salted": True,
        "image_keys": 2,
        "finish_status": "FINISHED_LENGTH_CAPPED",
        "output_tokens": 7,
        "stored_blocks": 4,
        "evicted_blocks": 5,
    }
    request = request_of(
        context=context,
        adapter="sql",
        isolated_by={"salt": 16, "adapter": 0, "image": 0},
        external_query_tokens=68,
        external_hit_tokens=16,
        cached_tokens=48,
        preemptions=1,
        recompute_query_tokens=110,
        recompute_hit_tokens=96,
        anomalies=("missed_cached_block",),
    )
    send(to(receiver.url), in_time(5), request)
    received = receiver.one()
    assert received.attributes == {
        "gen_ai.request.model": "sql",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 48,
        "gen_ai.response.finish_reasons": ["length"],
        "hitcurve.request.id": "r-0",
        "hitcurve.status": "looked_up",
        "hitcurve.adapter": "sql",
        "hitcurve.query_tokens": 100,
        "hitcurve.hit_tokens": 32,
        "hitcurve.computed_tokens": 68,
        "hitcurve.external.query_tokens": 68,
        "hitcurve.external.hit_tokens": 16,
        "hitcurve.engine_cached_tokens": 48,
        "hitcurve.lookups": 3,
        "hitcurve.wait_seconds": 0.5,
        "hitcurve.preemptions": 1,
        "hitcurve.recompute.query_tokens": 110,
        "hitcurve.recompute.hit_tokens": 96,
        "hitcurve.cache_salt.present": True,
        "hitcurve.image_keys": 2,
        "hitcurve.stored_blocks": 4,
        "hitcurve.evicted_blocks": 5,
        "hitcurve.isolated_by": ["salt"],
        "hitcurve.anomalies": ["missed_cached_block"],
        "hitcurve.miss_tokens.compulsory": 16,
        "hitcurve.miss_tokens.capacity": 48,
        "hitcurve.miss_tokens.reset": 0,
        "hitcurve.miss_tokens.isolated": 0,
        "hitcurve.miss_tokens.tail": 4,
        "hitcurve.miss_tokens.stranded": 0,
    }
    span = received.span
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("prefix_cache.request", TRACE, PARENT)
    assert span.trace_state == "vendor=1"
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (
        EPOCH_NS + 9_500_000_000,
        EPOCH_NS + 12 * 10**9,
    )
    own = {name: value for name, value in received.resource.items() if not name.startswith("telemetry.")}
    own.pop("service.instance.id", None)
    assert own == {
        "service.name": "vllm",
        "process.pid": 4242,
        "hitcurve.engine.index": 1,
        "hitcurve.engine.model": "tiny",
        "hitcurve.engine.block_size": 16,
        "hitcurve.engine.pool_blocks": 100,
    }


def test_what_is_not_known_is_not_said(
    receiver: Any, to: To, request_of: Requests, in_time: Callable[[float], float]
) -> None:
    unknown = dict.fromkeys(("query_tokens", "hit_tokens", "miss_tokens", "computed_tokens", "queue_s"))
    send(to(receiver.url), in_time(5), request_of(status="skipped", lookups=1, **unknown))
    assert receiver.one().attributes == {
        "gen_ai.request.model": "tiny",
        "gen_ai.usage.input_tokens": 100,
        "hitcurve.request.id": "r-0",
        "hitcurve.status": "skipped",
        "hitcurve.lookups": 1,
        "hitcurve.preemptions": 0,
        "hitcurve.recompute.query_tokens": 0,
        "hitcurve.recompute.hit_tokens": 0,
        "hitcurve.cache_salt.present": False,
        "hitcurve.image_keys": 0,
        "hitcurve.stored_blocks": 0,
        "hitcurve.evicted_blocks": 0,
    }


def test_an_attribute_that_vllm_sets_itself_is_left_to_it(
    receiver: Any, to: To, request_of: Requests, in_time: Callable[[float], float]
) -> None:
    facts = replace(to(receiver.url), vllm_span_attributes=("gen_ai.usage.cache_read.input_tokens",))
    send(facts, in_time(5), request_of())
    assert not {name for name in receiver.one().attributes if name.startswith("gen_ai.usage.")}


@pytest.mark.parametrize(
    "carrier", [None, {"traceparent": "rubbish"}, {"traceparent": f"00-{'0' * 32}-{PARENT}-01"}]
)
def test_a_request_without_a_usable_trace_begins_its_own(
    receiver: Any, to: To, request_of: Requests, in_time: Callable[[float], float], carrier: dict[str, str] | None
) -> None:
    send(to(receiver.url), in_time(5), request_of(context={"trace_carrier": carrier}))
    span = receiver.one().span
    assert span.parent_span_id == b""
    assert int.from_bytes(span.trace_id) not in (0, int(TRACE, 16))


def test_an_unsampled_trace_stays_unsampled_unless_a_rule_keeps_the_request(
    receiver: Any,
    to: To,
    request_of: Requests,
    in_time: Callable[[float], float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HITCURVE_SPANS_KEEP_CAPACITY", "49")
    facts = to(receiver.url)
    misses = dict.fromkeys(("compulsory", "reset", "isolated", "tail", "stranded"), 0)
    kept = request_of("kept", UNSAMPLED, hit_tokens=51, miss_tokens=misses | {"capacity": 49})
    send(facts, in_time(5), request_of("plain", UNSAMPLED), kept)
    received = receiver.one()
    assert (received.attributes["hitcurve.request.id"], received.attributes["hitcurve.kept"]) == (
        "kept",
        "capacity",
    )
    assert (received.span.trace_id.hex(), received.span.parent_span_id.hex()) == (TRACE, PARENT)
    counts = span_counts(facts)
    assert counts is not None
    assert (counts.submitted, counts.exported, counts.sampled_out) == (2, 1, 1)
    assert sum(counts.dropped.values()) == 0


@pytest.mark.parametrize(("setting", "kept"), [("on", ["stale"]), ("off", [])])
def test_a_request_with_stale_hits_is_kept_unless_that_is_switched_off(
    receiver: Any,
    to: To,
    request_of: Requests,
    in_time: Callable[[float], float],
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    kept: list[str],
) -> None:
    monkeypatch.setenv("HITCURVE_SPANS_KEEP_STALE", setting)
    send(
        to(receiver.url),
        in_time(5),
        request_of("stale", UNSAMPLED, stale_hit_tokens=16),
        request_of("r", UNSAMPLED),
    )
    assert [one.attributes["hitcurve.kept"] for one in receiver.spans()] == kept
    assert [one.attributes["hitcurve.stale_hit_tokens"] for one in receiver.spans()] == [16 for _ in kept]


def test_the_standard_sampler_variables_hold(
    receiver: Any,
    to: To,
    request_of: Requests,
    in_time: Callable[[float], float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "chat")
    send(to(receiver.url), in_time(5), request_of("root"), request_of("child", SAMPLED))
    received = receiver.one()
    assert received.attributes["hitcurve.request.id"] == "child"
    assert received.resource["service.name"] == "chat"


def test_each_preemption_is_an_event(
    receiver: Any, to: To, request_of: Requests, in_time: Callable[[float], float]
) -> None:
    send(to(receiver.url), in_time(5), request_of(context={"preempted_at_s": (10.75, 11.25)}, preemptions=2))
    events = [(event.name, event.time_unix_nano - EPOCH_NS) for event in receiver.one().span.events]
    assert events == [("preempted", 10_750_000_000), ("preempted", 11_250_000_000)]


def eviction(idle_s: float, reuses: int, depth: int | None, **fields: Any) -> Eviction:
    usual: dict[str, Any] = {
        "at_s": 11.0,
        "age_s": idle_s + 1,
        "adapter": None,
        "evicted_by": "b",
        "copies_left": 0,
    }
    return Eviction(idle_s=idle_s, reuses=reuses, depth=depth, **(usual | fields))


def test_all_that_a_request_evicts_is_one_span_below_it_with_links_to_the_victims(
    receiver: Any, to: To, request_of: Requests, in_time: Callable[[float], float]
) -> None:
    sink = sink_of(to(receiver.url))
    sink.request_finished(request_of("victim"))
    sink.request_finished(request_of("unsampled victim", UNSAMPLED))
    first = (eviction(5.0, 2, 3), eviction(1.0, 0, None, copies_left=1))
    sink.evicted(EvictionBatch(11.0, "b", first, ("victim", "unsampled victim")))
    last = (eviction(9.0, 1, 2, adapter="sql"), eviction(2.0, 0, 7), eviction(2.0, 0, 8))
    sink.evicted(EvictionBatch(11.5, "b", last, ("victim", "unknown", None)))
    sink.request_finished(request_of("b", SAMPLED))
    sink.close(in_time(5))
    victim, cause, evicted = receiver.spans()
    assert evicted.span.name == "prefix_cache.eviction"
    assert evicted.span.trace_id.hex() == TRACE
    assert evicted.span.parent_span_id == cause.span.span_id
    (link,) = evicted.span.links
    assert (link.trace_id, link.span_id) == (victim.span.trace_id, victim.span.span_id)
    assert [(pair.key, pair.value.int_value) for pair in link.attributes] == [("hitcurve.evicted_blocks", 2)]
    times = (evicted.span.start_time_unix_nano - EPOCH_NS, evicted.span.end_time_unix_nano - EPOCH_NS)
    assert times == (11_000_000_000, 11_500_000_000)
    assert evicted.attributes == {
        "hitcurve.request.id": "b",
        "hitcurve.evicted_blocks": 5,
        "hitcurve.allocations": 2,
        "hitcurve.eviction.age_max_seconds": 10.0,
        "hitcurve.eviction.idle_min_seconds": 1.0,
        "hitcurve.eviction.idle_max_seconds": 9.0,
        "hitcurve.eviction.never_reused_blocks": 3,
        "hitcurve.eviction.reuses": 3,
        "hitcurve.eviction.duplicate_blocks": 1,
        "hitcurve.eviction.depth_min": 2,
        "hitcurve.eviction.adapters": ["sql"],
        "hitcurve.eviction.victim_requests": 3,
    }


def test_evictions_of_an_unsampled_request_are_unsampled(
    receiver: Any, to: To, request_of: Requests, in_time: Callable[[float], float]
) -> None:
    facts = to(receiver.url)
    sink = sink_of(facts)
    sink.evicted(EvictionBatch(11.0, "b", (eviction(5.0, 2, 3),), (None,)))
    sink.request_finished(request_of("b", UNSAMPLED))
    sink.close(in_time(5))
    assert receiver.spans() == []
    counts = span_counts(facts)
    assert counts is not None
    assert (counts.submitted, counts.sampled_out) == (2, 2)


def test_evictions_for_nobody_and_resets_are_spans_of_their_own(
    receiver: Any, to: To, in_time: Callable[[float], float]
) -> None:
    sink = sink_of(to(receiver.url))
    sink.evicted(EvictionBatch(11.0, None, (eviction(5.0, 2, 3, evicted_by=None),), (None,)))
    sink.cache_reset(CacheReset(12.0, True, 497))
    sink.cache_reset(CacheReset(13.0, False, 0))
    sink.close(in_time(5))
    evicted, done, refused = receiver.spans()
    assert (evicted.span.name, evicted.attributes["hitcurve.evicted_blocks"]) == ("prefix_cache.eviction", 1)
    assert "hitcurve.request.id" not in evicted.attributes
    assert done.span.name == refused.span.name == "prefix_cache.reset"
    assert done.attributes == {"hitcurve.reset.done": True, "hitcurve.reset.cleared_blocks": 497}
    assert refused.attributes == {"hitcurve.reset.done": False, "hitcurve.reset.cleared_blocks": 0}
    assert len({one.span.trace_id for one in (evicted, done, refused)}) == 3


def test_ids_are_not_drawn_from_the_random_numbers_that_vllm_seeds(to: To) -> None:
    facts = to("http://127.0.0.1:9/v1/traces")
    random.seed(7)
    before = random.getstate()
    ids = set()
    for _ in range(2):
        (span,) = SpanMaker(finished_spans(facts, os.environ), facts).make(CacheReset(1.0, True, 0))
        ids.add(span.get_span_context().trace_id)
    assert random.getstate() == before
    assert len(ids) == 2


def test_grpc_is_the_default_and_needs_no_scheme(
    to: To, request_of: Requests, in_time: Callable[[float], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    taken: list[Any] = []

    class Servicer(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc]
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
            taken.extend(span for group in request.resource_spans for span in group.scope_spans[0].spans)
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    send(to(f"127.0.0.1:{port}"), in_time(5), request_of(context=SAMPLED))
    server.stop(None).wait()
    assert [span.trace_id.hex() for span in taken] == [TRACE]


def test_the_document_lists_every_attribute(repository: Path) -> None:
    documented = set(re.findall(r"`((?:gen_ai|hitcurve)\.[a-z_.<>]+)`", document(repository)))
    source = (repository / "engine_patch/hitcurve_engine/spans/attributes.py").read_text()
    named = set(re.findall(r'"((?:gen_ai|hitcurve)\.[a-z_.]+)"', source)) | {"hitcurve.miss_tokens.<reason>"}
    assert named - documented == set()
    assert documented - named == set()


def document(repository: Path) -> str:
    return (repository / "docs" / "engine_spans.md").read_text(encoding="utf-8")
