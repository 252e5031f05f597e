"""The load-test cases: recorded streams, usage and pages, each with the answer that is right."""

import base64
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hitcurve.child import ChildProcess
from hitcurve.readers import read_page
from hitcurve.sample import EngineSample
from hitcurve_loadtests.engine_counters import lookups_during_run
from hitcurve_loadtests.records import RequestRecord
from hitcurve_loadtests.stream import StreamMeasurement, StreamMeter, measure
from hitcurve_loadtests.summary import client_hit_rate
from hitcurve_loadtests.usage import read_usage


def recorded(case: Path) -> tuple[int, list[tuple[float, bytes]]]:
    status, chunks = 0, []
    for line in (case / "stream.jsonl").read_text().splitlines():
        row = json.loads(line)
        at_s = row["at_ms"] / 1000
        if "headers" in row:
            status = row["headers"]["status"]
        elif "b64" in row:
            chunks.append((at_s, base64.b64decode(row["b64"])))
        else:
            chunks.append((at_s, b""))
    return status, chunks


def expected(case: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((case / "expected.json").read_text())["expect"]
    return values


def measured(case: Path) -> StreamMeasurement:
    status, chunks = recorded(case)
    return measure(chunks, status=status, started_s=0.0)


def seconds(milliseconds: float | None) -> object:
    return None if milliseconds is None else pytest.approx(milliseconds / 1000, abs=1e-9)


def test_lt_01_ttft_is_the_first_delta_that_is_not_empty(shared: Path) -> None:
    right, seen = expected(shared / "cases/LT-01"), measured(shared / "cases/LT-01")
    assert (seen.ttft_s, seen.end_s) == (seconds(right["ttft_ms"]), seconds(right["total_ms"]))
    assert (seen.outcome, seen.text, seen.first_content_s) == ("ok", "Hi there", seen.ttft_s)


def test_lt_04_usage_comes_in_an_event_without_choices(shared: Path) -> None:
    right, seen = expected(shared / "cases/LT-04"), measured(shared / "cases/LT-04")
    assert seen.ttft_s == seconds(right["ttft_ms"])
    counts = {key: getattr(seen, key) for key in ("prompt_tokens", "completion_tokens", "cached_tokens")}
    assert counts == {key: right[key] for key in counts}
    assert seen.cached_tokens / seen.prompt_tokens == pytest.approx(right["client_hit_rate"])
    assert seen.outcome == "ok"


def test_lt_05_tokens_are_counted_by_the_engine_not_by_chunks(shared: Path) -> None:
    right, seen = expected(shared / "cases/LT-05"), measured(shared / "cases/LT-05")
    assert (seen.ttft_s, seen.tpot_s) == (seconds(right["ttft_ms"]), seconds(right["tpot_ms"]))
    assert (seen.content_events, seen.completion_tokens) == (right["chunks"], right["completion_tokens"])
    assert seen.cached_tokens == right["cached_tokens"] == 0


def test_lt_06_a_cut_stream_failed_although_text_arrived(shared: Path) -> None:
    right, seen = expected(shared / "cases/LT-06"), measured(shared / "cases/LT-06")
    assert (seen.outcome, seen.reason) == ("failed", right["failure"])
    assert (seen.ttft_s, seen.end_s, seen.text) == (seconds(right["ttft_ms"]), seconds(250), "partial")
    assert (seen.prompt_tokens, seen.cached_tokens) == (None, None)


def test_lt_07_an_error_inside_a_200_stream_is_a_failure(shared: Path) -> None:
    right, seen = expected(shared / "cases/LT-07"), measured(shared / "cases/LT-07")
    assert (seen.outcome, seen.reason) == ("failed", "error inside the stream: engine dead")
    assert (seen.ttft_s, seen.end_s) == (right["ttft_ms"], seconds(right["total_ms"]))


def test_lt_08_events_are_framed_as_the_standard_says(shared: Path) -> None:
    right, seen = expected(shared / "cases/LT-08"), measured(shared / "cases/LT-08")
    assert (seen.text, seen.content_events, seen.outcome) == (right["text"], right["content_events"], "ok")
    assert (seen.ttft_s, seen.last_token_s) == (seconds(right["ttft_ms"]), seconds(right["last_token_ms"]))


@pytest.mark.parametrize("case", ["LT-01", "LT-04", "LT-05", "LT-06", "LT-07", "LT-08"])
def test_reading_live_byte_by_byte_gives_the_same(case: str, shared: Path) -> None:
    status, chunks = recorded(shared / "cases" / case)
    meter = StreamMeter(status=status, started_s=0.0)
    for at_s, data in chunks:
        if not data:
            meter.feed(at_s, data)
        for byte in data:
            meter.feed(at_s, bytes([byte]))
    assert meter.finish() == measure(chunks, status=status, started_s=0.0)


def page(path: Path) -> tuple[EngineSample, ...]:
    return read_page(path.read_bytes(), "text/plain; version=0.0.4", at_s=0.0, monotonic_s=0.0)


def test_lt_11_hit_rate_of_the_run_is_the_increase_over_all_engines(shared: Path) -> None:
    case = shared / "cases/LT-11"
    right = expected(case)
    run = lookups_during_run(page(case / "before.prom"), page(case / "after.prom"))
    assert asdict(run) == {
        "query_tokens": right["queries"],
        "hit_tokens": right["hits"],
        "hit_rate": pytest.approx(right["run_hit_rate"]),
        "reason": None,
    }


def test_lt_11_a_counter_that_fell_leaves_no_value(shared: Path) -> None:
    case = shared / "cases/LT-11"
    right = expected(case)["with_after_restart"]
    run = lookups_during_run(page(case / "before.prom"), page(case / "after_restart.prom"))
    assert (run.hit_rate, run.query_tokens, run.reason) == (right["run_hit_rate"], None, right["reason"])


def test_lt_13_an_answer_that_is_not_streamed_has_no_ttft() -> None:
    usage = {"prompt_tokens": 64, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 32}}
    choice = {"index": 0, "message": {"role": "assistant", "content": "all at once"}, "finish_reason": "stop"}
    body = json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    seen = measure([(0.4, body[:20]), (0.5, body[20:])], status=200, started_s=0.0)
    assert (seen.ttft_s, seen.first_content_s, seen.tpot_s, seen.end_s) == (None, None, None, 0.5)
    assert (seen.outcome, seen.text) == ("ok", "all at once")
    assert (seen.prompt_tokens, seen.completion_tokens, seen.cached_tokens) == (64, 9, 32)


LOCUSTFILE_WITH_SPANS = """
import os
import runpy

from locust import events
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

globals().update(runpy.run_path(os.environ["HITCURVE_LOCUSTFILE"]))


@events.init.add_listener
def start_tracing(**_):
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(os.environ["COLLECTOR"])))
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("load")
    events.request.add_listener(lambda name, **_: tracer.start_span(name).end())
    events.quitting.add_listener(lambda **_: provider.shutdown())
"""


def test_lt_15_spans_over_http_neither_hold_the_run_up_nor_its_end(
    repository: Path, otlp_receiver: Any, tmp_path: Path
) -> None:
    file = tmp_path / "locustfile.py"
    file.write_text(LOCUSTFILE_WITH_SPANS)
    command = [sys.executable, "-m", "hitcurve", "engine", "--port", "0", "--speed", "50"]
    with ChildProcess("engine", command, tmp_path / "log") as engine:
        words = ["-f", str(file), "--headless", "-t", "4s", "--host", engine.wait_listening(30), "ExactRepeats"]
        done = subprocess.run(
            [sys.executable, "-m", "locust", *words, "-u", "1", "--requests", "20", "--results", "r.json"],
            cwd=tmp_path,
            env={
                **os.environ,
                "COLLECTOR": otlp_receiver.url,
                "HITCURVE_LOCUSTFILE": str(repository / "loadtests/locustfile.py"),
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "r.json").read_text())
    assert results["requests"]["ok"] == 20
    # It ran its 4 s, and was gone soon after its last request.
    assert results["elapsed_s"] < 10
    assert len(otlp_receiver.spans()) == 20


def test_lt_16_reports_do_not_ask_entries_for_current_percentiles() -> None:
    program = """
from locust.env import Environment
from hitcurve_loadtests.locust_report import html_report
from hitcurve_loadtests.summary import RunTotals

environment = Environment(user_classes=[])
environment.create_local_runner()
entry = environment.stats.get("load", "TTFT")
entry.use_response_times_cache = False
entry.log(50.0, 0)
try:
    entry.get_current_response_time_percentile(0.5)
except ValueError as error:
    print("trap:", error)
told = {"name": "load", "verdict": "ok", "reasons": []}
page = html_report(environment, {**told, **RunTotals().results(1.0)})
print("TTFT" in page, 'id="hitcurve"' in page)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    trap, shown = done.stdout.splitlines()
    assert trap.startswith("trap: ")
    assert shown == "True True"


def test_lt_14_unknown_is_not_zero(shared: Path) -> None:
    right = expected(shared / "cases/LT-14")
    records = []
    for line in (shared / "cases/LT-14/usage.jsonl").read_text().splitlines():
        usage = read_usage(json.loads(line)["usage"])
        records.append(
            RequestRecord(
                at_s=0.0,
                load="lt-14",
                profile="unique",
                group="g",
                model="m",
                status=200,
                outcome="ok",
                reason=None,
                ttft_s=None,
                tpot_s=None,
                duration_s=1.0,
                late_s=None,
                **asdict(usage),
            )
        )
    rate = client_hit_rate(records)
    assert (rate.hit_rate, rate.known, rate.unknown) == (
        right["client_hit_rate"],
        right["known"],
        right["unknown"],
    )
