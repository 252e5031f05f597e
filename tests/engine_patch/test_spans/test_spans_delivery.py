"""Collectors that are dead, hang, reset or come back; overflow; forks; what is off and why."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from hitcurve_engine.recording.sinks import CacheReset, EngineFacts, FinishedRequest
from hitcurve_engine.spans.delivery import QueueLimits, queue_limits
from hitcurve_engine.spans.sink import SpanSink, create
from hitcurve_engine.spans.span_counts import SpanCounts, span_counts

To = Callable[[str], EngineFacts]
Requests = Callable[..., FinishedRequest]
CLOSE_S = 5.0


def started(facts: EngineFacts) -> tuple[SpanSink, SpanCounts]:
    sink, counts = create(facts), span_counts(facts)
    assert sink is not None
    assert counts is not None
    return sink, counts


def accounted(counts: SpanCounts) -> int:
    return counts.exported + counts.sampled_out + sum(counts.dropped.values())


def test_a_dead_collector_costs_the_spans_and_nothing_else(
    dead_url: str, to: To, request_of: Requests, caplog: pytest.LogCaptureFixture
) -> None:
    sink, counts = started(to(dead_url))
    offering = threading.Thread(target=lambda: [sink.request_finished(request_of(str(n))) for n in range(1000)])
    offering.start()
    offering.join()
    begun = monotonic()
    sink.close(begun + CLOSE_S)
    assert monotonic() - begun < CLOSE_S
    assert (counts.submitted, counts.exported, accounted(counts)) == (1000, 0, 1000)
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]
    assert len(caplog.records) <= 1


def test_a_hanging_collector_does_not_hold_up_the_end(receiver: Any, to: To, request_of: Requests) -> None:
    arrived, release = threading.Event(), threading.Event()

    def hang() -> int:
        arrived.set()
        release.wait(30)
        return 200

    receiver.behaviour = hang
    sink, counts = started(to(receiver.url))
    for number in range(10):
        sink.request_finished(request_of(str(number)))
    assert arrived.wait(10)
    begun = monotonic()
    sink.close(begun + 2.0)
    assert monotonic() - begun < CLOSE_S
    assert (counts.submitted, counts.exported, counts.dropped["shutdown"]) == (10, 0, 10)
    release.set()
    receiver.wait(lambda: receiver.requests == 1)
    assert accounted(counts) == 10


def test_a_full_queue_drops_an_exact_number(
    receiver: Any, to: To, request_of: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, release = threading.Event(), threading.Event()

    def wait() -> int:
        arrived.set()
        release.wait(30)
        return 200

    receiver.behaviour = wait
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    sink, counts = started(to(receiver.url))
    sink.cache_reset(CacheReset(0.0, True, 0))
    assert arrived.wait(10)
    for _ in range(10_000):
        sink.cache_reset(CacheReset(0.0, True, 0))
    assert counts.dropped["queue_full"] == 10_000 - 2048
    monkeypatch.setattr(receiver, "behaviour", lambda: 200)
    release.set()
    sink.close(monotonic() + 30)
    assert counts.exported == len(receiver.spans()) == 2049
    assert counts.submitted == accounted(counts) == 10_001


def test_a_collector_that_refuses_and_recovers_gets_the_later_spans(
    receiver: Any, to: To, request_of: Requests, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "hitcurve.engine")
    answers = iter([400, 400, 503])
    receiver.behaviour = lambda: next(answers, 200)
    sink, counts = started(to(receiver.url))
    for number in range(4):
        seen = receiver.requests
        sink.request_finished(request_of(str(number)))
        receiver.wait(lambda seen=seen: receiver.requests > seen)
    receiver.wait(lambda: len(receiver.spans()) == 2)
    sink.close(monotonic() + CLOSE_S)
    assert [one.attributes["hitcurve.request.id"] for one in receiver.spans()] == ["2", "3"]
    assert (counts.submitted, counts.exported, counts.dropped["not_delivered"]) == (4, 2, 2)
    assert [record.getMessage() for record in caplog.records] == [
        "hitcurve: the collector does not take spans; they are dropped and counted until it does",
        "hitcurve: the collector takes spans again",
    ]


def test_an_item_that_cannot_become_a_span_costs_only_itself(
    receiver: Any, to: To, request_of: Requests, caplog: pytest.LogCaptureFixture
) -> None:
    sink, counts = started(to(receiver.url))
    for finished in (request_of("bad", miss_tokens=5), request_of("good"), request_of("bad", miss_tokens=5)):
        sink.request_finished(finished)
    sink.close(monotonic() + CLOSE_S)
    assert receiver.one().attributes["hitcurve.request.id"] == "good"
    assert (counts.exported, counts.dropped["error"], counts.submitted) == (1, 2, 3)
    assert len(caplog.records) == 1


FORKING = """
import os, sys
from dataclasses import fields
from time import monotonic
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import RESET
from hitcurve_engine.recording.recorder import Recorder
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

sizes = {"block_size": 16, "hash_block_size": 16, "group": 0, "groups": 1, "pool_blocks": 100}
shape = {one.name: sizes.get(one.name, True) for one in fields(CacheShape)}
recorder = Recorder(CacheShape(**shape), Settings(), Switch())
recorder.describe({"traces_endpoint": sys.argv[1]})

def reset():
    if not recorder.probe.started:
        recorder.probe.start()
    recorder.probe.events.append((RESET, monotonic(), True))

reset()
assert recorder.flush()
child = os.fork()
reset()
recorder.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(0)
"""


def test_parent_and_forked_child_each_send_their_own_spans(receiver: Any) -> None:
    variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY": "10"}
    subprocess.run(
        [sys.executable, "-c", FORKING, receiver.url], env=os.environ | variables, check=True, timeout=60
    )
    received = receiver.spans()
    by_process = sorted([one.resource["process.pid"] for one in received].count(pid) for pid in pids(received))
    assert by_process == [1, 2]
    assert len({one.span.span_id for one in received}) == 3


def pids(received: list[Any]) -> set[int]:
    return {one.resource["process.pid"] for one in received}


def test_without_an_endpoint_or_by_wish_there_are_no_spans(
    to: To, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert create(to("")) is None
    for name, value in (
        ("HITCURVE_SPANS", "off"),
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert create(to("http://127.0.0.1:9/v1/traces")) is None
    assert caplog.records == []


@pytest.mark.parametrize(
    "missing", ["opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"]
)
def test_without_opentelemetry_spans_are_off_and_one_line_says_so(
    to: To, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert create(to("http://127.0.0.1:9/v1/traces")) is None
    assert [record.getMessage().startswith("hitcurve: spans are off (") for record in caplog.records] == [True]


def test_an_unknown_protocol_is_named(
    to: To, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    facts = to("http://127.0.0.1:9/v1/traces")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json")
    assert create(facts) is None
    (record,) = caplog.records
    assert record.getMessage() == (
        "hitcurve: spans are off (OTLP protocol 'http/json' is neither grpc nor http/protobuf)"
    )


def test_an_endpoint_in_the_environment_will_do(
    receiver: Any, to: To, request_of: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.removesuffix("/v1/traces"))
    sink, counts = started(to(""))
    sink.request_finished(request_of())
    sink.close(monotonic() + CLOSE_S)
    assert counts.exported == len(receiver.spans()) == 1


def test_the_queue_takes_the_standard_limits() -> None:
    assert queue_limits({}) == QueueLimits(2048, 64, 5.0)
    named = {
        "OTEL_BSP_MAX_QUEUE_SIZE": "10",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "20",
        "OTEL_BSP_SCHEDULE_DELAY": "250",
    }
    assert queue_limits(named) == QueueLimits(10, 10, 0.25)
    assert queue_limits(dict.fromkeys(named, "rubbish")) == QueueLimits(2048, 64, 5.0)
