"""The example that takes spans, fed by the engine patch's own span sink."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from hitcurve.child import ChildProcess
from hitcurve_engine.ledger import Outcome
from hitcurve_engine.recording.sinks import EngineFacts, FinishedRequest, RequestContext
from hitcurve_engine.spans.sink import create

DEADLINE_S = 60.0
REASONS = ("compulsory", "capacity", "reset", "isolated", "tail", "stranded")
TRACE = "0af7651916cd43dd8448eb211c80319c"


def request(name: str, status: str, adapter: str | None = None, **missed: int) -> FinishedRequest:
    """100 prompt tokens; those not missed were found."""
    looked_up = status == "looked_up"
    outcome = Outcome(
        name,
        status,  # type: ignore[arg-type]
        100,
        query_tokens=100 if looked_up else None,
        hit_tokens=100 - sum(missed.values()) if looked_up else None,
        miss_tokens=dict.fromkeys(REASONS, 0) | missed if looked_up else None,  # type: ignore[arg-type]
        adapter=adapter,
        looked_up_at_s=10.0,
        scheduled_at_s=10.5,
        finished_at_s=12.0,
        queue_s=0.5 if looked_up else None,
    )
    return FinishedRequest(
        outcome, RequestContext(trace_carrier={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
    )


def test_otlp_spans(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    command = [sys.executable, str(repository / "examples" / "otlp_spans.py"), "0"]
    with ChildProcess("example", command, tmp_path / "example.log") as example:
        url = example.wait_listening(DEADLINE_S)
        sink = create(
            EngineFacts(block_size=16, pool_blocks=100, groups=1, pid=1, wall_offset_s=1.7e9, traces_endpoint=url)
        )
        assert sink is not None
        sink.request_finished(request("a", "looked_up", capacity=48, tail=4))
        sink.request_finished(request("b", "looked_up", adapter="sql"))
        sink.request_finished(request("c", "skipped"))
        sink.close(time.monotonic() + DEADLINE_S)
        os.kill(example.process_id, signal.SIGINT)
        assert example.wait_end(DEADLINE_S) == 0
        lines = (tmp_path / "example.log").read_text().splitlines()[1:]
    assert lines == [
        "0af76519   48.0% of 100 tokens; missed: capacity 48, tail 4, waited 0.500 s",
        "0af76519  100.0% of 100 tokens for sql; missed: nothing, waited 0.500 s",
        "0af76519  skipped: looked up nothing",
    ]
