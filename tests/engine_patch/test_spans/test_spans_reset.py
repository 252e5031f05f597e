"""A collector whose connections are reset in the middle of an export, by both protocols."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from hitcurve_engine.recording.sinks import EngineFacts, FinishedRequest
from hitcurve_engine.spans.sink import SpanSink, create
from hitcurve_engine.spans.span_counts import SpanCounts, span_counts

CLOSE_S = 5.0
SPANS = 300


class Resetting:
    """Accepts, reads a few bytes of what comes, and resets the connection."""

    def __init__(self) -> None:
        self.resets = 0
        self.changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def wait_for(self, resets: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.resets >= resets, 60)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.recv(16)
            # Lingering for 0 s makes closing a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            with self.changed:
                self.resets += 1
                self.changed.notify_all()


@pytest.fixture
def resetting() -> Iterator[Resetting]:
    collector = Resetting()
    yield collector
    collector.close()


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_every_span_is_counted_and_nobody_waits(
    resetting: Resetting,
    to: Callable[[str], EngineFacts],
    request_of: Callable[..., FinishedRequest],
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    facts = to(resetting.url + ("/v1/traces" if protocol.startswith("http") else ""))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
    sink, counts = made(facts)
    finished = [request_of(str(number)) for number in range(SPANS)]
    for one in finished[: SPANS // 2]:
        sink.request_finished(one)
    resetting.wait_for(1)
    for one in finished[SPANS // 2 :]:
        sink.request_finished(one)
    began = monotonic()
    sink.close(began + CLOSE_S)
    assert monotonic() - began < 30
    assert counts.submitted == SPANS
    assert (counts.exported, sum(counts.dropped.values())) == (0, SPANS)
    assert len([record for record in caplog.records if record.name.startswith("hitcurve")]) <= 1


def made(facts: EngineFacts) -> tuple[SpanSink, SpanCounts]:
    sink: Any = create(facts)
    counts = span_counts(facts)
    assert sink is not None
    assert counts is not None
    return sink, counts
