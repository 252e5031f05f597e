"""Spans whose collector is lost: an engine that counts what it loses is ok, and three that do not are found."""

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from hitcurve_chaos.access import StartSpec
from hitcurve_chaos.calls import HttpTransport
from hitcurve_chaos.capabilities import Capabilities
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.demo.engines import free_port
from hitcurve_chaos.demo.patched_vllm import patched_variables
from hitcurve_chaos.opened import Drivers
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.runner import run_planned
from hitcurve_chaos.stand_in_collector import spans_in, stand_in_collector
from hitcurve_chaos.suite import Entry, Suite, plan_suite
from hitcurve_chaos.targets import Target
from hitcurve_chaos.verdict import Verdict

Kind = Literal["honest", "silent", "waits", "claims", "mutes"]
GIVE_UP_S = 3.0


class Engine:
    """Sends a span for each completion. ``silent`` counts no loss, ``waits`` for the collector, ``claims`` all.

    ``mutes`` waits too, so that nobody else has to, and tells nothing once spans were lost and one arrived.
    """

    def __init__(self, kind: Kind, collector: str) -> None:
        self.kind = kind
        self._collector = f"{collector}/v1/traces"
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._senders: list[threading.Thread] = []
        self.lookups = self.taken = self.dropped = 0

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, str]:
        if path == "/metrics":
            return 200, self._page()
        assert body is not None
        sender = threading.Thread(target=self._send)
        sender.start()
        if self.kind in ("waits", "mutes"):
            sender.join()
        prompt = json.dumps([body["prompt"], body.get("cache_salt")])
        with self._lock:
            self._senders.append(sender)
            self.lookups += len(body["prompt"])
            cached = len(body["prompt"]) - 1 if prompt in self._known else 0
            self._known.add(prompt)
        usage = {"prompt_tokens": len(body["prompt"]), "prompt_tokens_details": {"cached_tokens": cached}}
        return 200, json.dumps({"choices": [{"text": "x", "token_ids": [1]}], "usage": usage})

    def end(self) -> None:
        for sender in self._senders:
            sender.join()

    def _send(self) -> None:
        request = urllib.request.Request(self._collector, data=batch(1), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=GIVE_UP_S):
                arrived = True
        except OSError:
            arrived = False
        with self._lock:
            self.taken += arrived or self.kind == "claims"
            self.dropped += not arrived and self.kind in ("honest", "waits", "mutes")

    def _page(self) -> str:
        rows = (
            ("vllm:prefix_cache_queries_total", '{engine="0"}', self.lookups),
            ("vllm:prefix_cache_hits_total", '{engine="0"}', 0),
            ("hitcurve_engine_spans_total", '{engine="0"}', self.taken),
            ("hitcurve_engine_dropped_spans_total", '{engine="0",reason="not_delivered"}', self.dropped),
        )
        rows = rows[:2] if self.kind == "mutes" and self.taken and self.dropped else rows
        types = (f"# TYPE {name.removesuffix('_total')} counter\n" for name, _, _ in rows)
        return "".join(
            f"{kind}{name}{labels} {value}\n" for kind, (name, labels, value) in zip(types, rows, strict=True)
        )


def batch(*spans: int) -> bytes:
    """A request with that many spans in each of its scopes."""
    scopes = [ScopeSpans(spans=[Span(name="s", trace_id=b"\x12" * 16) for _ in range(count)]) for count in spans]
    body: bytes = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=scopes)]).SerializeToString()
    return body


@pytest.fixture(autouse=True)
def _hardly_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow collector is far from being given up, however slow the machine is."""
    monkeypatch.setattr("hitcurve_chaos.stand_in_collector.SLOW_S", 0.1)


def judged(scripted: ModuleType, folder: Path, kind: Kind) -> Verdict:
    collector = f"http://127.0.0.1:{free_port()}"
    engine = Engine(kind, collector)
    # Only one that waits is held to the time: no test passes or fails by the speed of a machine.
    tolerances = {} if kind == "waits" else {"added_s": 1000}
    entry = Entry("collector-lost", {"requests": 4, "correctness": "false"}, tolerances)
    planned = plan_suite(Suite("s", "S", [entry]), {}, 7)
    with scripted.serve(engine) as url:
        try:
            (verdict,) = run_planned(Target("t", url, "m", collector=collector), planned, folder, 7).verdicts
        finally:
            engine.end()
    return verdict


def missed(verdict: Verdict) -> set[str]:
    return {judgement.name for judgement in verdict.judgements if judgement.met is False}


def test_an_engine_that_counts_what_it_loses_is_ok(scripted: ModuleType, tmp_path: Path) -> None:
    verdict = judged(scripted, tmp_path, "honest")
    assert (verdict.verdict, list(verdict.problems)) == ("ok", [])
    # Full, hanging, resetting and gone: four rounds of four.
    assert verdict.numbers["dropped"] == 16
    assert (verdict.numbers["arrived_before"], verdict.numbers["arrived_again"]) == (4, 4)


@pytest.mark.parametrize(
    ("kind", "word", "name"),
    [("silent", "bad", "lost_silently"), ("waits", "bad", "added_s"), ("claims", "bad", "claimed")],
)
def test_an_engine_that_hides_its_losses_or_waits_is_not(
    kind: Kind, word: str, name: str, scripted: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "silent":
        # Nobody needs to wait for what never comes.
        monkeypatch.setattr("hitcurve_chaos.scenarios.collector_lost._SETTLE_S", 0.5)
    verdict = judged(scripted, tmp_path, kind)
    assert verdict.verdict == word
    assert name in missed(verdict)


def test_what_the_engine_does_not_tell_is_unknown_and_not_lost(
    scripted: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody needs to wait for what never comes.
    monkeypatch.setattr("hitcurve_chaos.scenarios.collector_lost._SETTLE_S", 0.5)
    verdict = judged(scripted, tmp_path, "mutes")
    assert verdict.verdict == "no_data"
    unknown = {judgement.name for judgement in verdict.judgements if judgement.met is None}
    assert unknown == {"lost_silently", "claimed"}
    assert "the engine does not tell how many spans were lost" in verdict.seen


@given(st.lists(st.integers(0, 5), max_size=4))
def test_spans_of_a_batch_are_counted(spans: list[int]) -> None:
    assert spans_in(batch(*spans)) == sum(spans)


@given(st.binary(max_size=60))
def test_whatever_comes_is_counted_or_refused(body: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert spans_in(body) >= 0


def test_what_is_no_batch_is_refused_and_not_counted() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with stand_in_collector(address) as collector:
        for data in (b"\x0a\xff", b"\x0b"):
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(urllib.request.Request(address, data=data, method="POST"), timeout=10)
        packed = urllib.request.Request(address, data=gzip.compress(batch(2, 1)), method="POST")
        packed.add_header("Content-Encoding", "gzip")
        with urllib.request.urlopen(packed, timeout=10) as answer:
            assert answer.status == 200
    assert collector.spans == 3


def test_where_somebody_listens_already_the_scenario_does_nothing(scripted: ModuleType, tmp_path: Path) -> None:
    collector = f"http://127.0.0.1:{free_port()}"
    engine = Engine("honest", collector)
    planned = plan_suite(Suite("s", "S", [Entry("collector-lost", {"correctness": "false"})]), {}, 7)
    with scripted.serve(engine) as url, stand_in_collector(collector) as theirs:
        (verdict,) = run_planned(Target("t", url, "m", collector=collector), planned, tmp_path, 7).verdicts
        engine.end()
    assert verdict.verdict == "invalid"
    assert f"nothing can listen at {collector} (Address already in use)" in verdict.problems[0]
    assert theirs.turned_away == 0


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (
            Target("t", "http://127.0.0.1:1", "m"),
            "the target names no 'collector' for which a scenario may stand in",
        ),
        (
            Target("t", "http://127.0.0.1:1", "m", collector="http://127.0.0.1:4318"),
            "the engine counts no spans; it needs the engine patch, with spans on",
        ),
        (Target("t", "http://127.0.0.1:1", "m", start=StartSpec()), "the simulated engine sends no spans"),
    ],
)
def test_why_a_target_cannot_lose_its_collector(target: Target, reason: str, tmp_path: Path) -> None:
    probe = Probe(target, HttpTransport(), random.Random(1), SystemClock(), tmp_path / "requests.jsonl")
    assert Capabilities(target, HttpTransport(), probe, Drivers()).lack(["collector"]) == reason


def test_a_patched_vllm_finds_the_patch_and_nothing_else_of_this_environment(tmp_path: Path) -> None:
    for _ in range(2):
        variables = patched_variables(tmp_path / "patch", "http://127.0.0.1:4318")
    assert variables["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == "http://127.0.0.1:4318/v1/traces"
    assert {path.name for path in (tmp_path / "patch").iterdir()} == {
        "hitcurve",
        "hitcurve_engine",
        "hitcurve-0.dist-info",
    }
    code = (
        "import hitcurve_engine.plugin; from importlib.metadata import entry_points; "
        "print(*entry_points(group='vllm.general_plugins'))"
    )
    environment = {**os.environ, "PYTHONPATH": variables["PYTHONPATH"]}
    found = subprocess.run([sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
    assert "hitcurve_engine.plugin:register" in found.stdout
