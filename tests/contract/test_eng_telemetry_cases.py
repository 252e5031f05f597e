"""The ENG cases that concern what leaves the engine: spans and metrics."""

import re
import socket
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from hitcurve_engine.ledger import Ledger, Outcome
from hitcurve_engine.metrics.adapter_labels import OTHER, AdapterLabels
from hitcurve_engine.metrics.families import SnapshotCollector
from hitcurve_engine.metrics.sink import MetricsSink
from hitcurve_engine.metrics.tally import Tally
from hitcurve_engine.recording.request_reading import RequestKeys, read_keys
from hitcurve_engine.recording.sinks import EngineFacts, FinishedRequest, PatchStatus, RequestContext
from hitcurve_engine.spans.sink import create
from hitcurve_engine.spans.span_counts import span_counts

SHUTDOWN_S = 5.0
SECRET = "tenant-secret-salt"

Facts = Callable[[str], EngineFacts]


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> Facts:
    """Facts of an engine whose spans go to a URL."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    return lambda url: EngineFacts(16, 1000, 1, 4711, 1.7e9, model_name="tiny", traces_endpoint=url)


def send(facts: EngineFacts, *outcomes: Outcome) -> float:
    """Seconds that the shutdown took."""
    sink = create(facts)
    assert sink is not None
    for outcome in outcomes:
        sink.request_finished(FinishedRequest(outcome, RequestContext(finish_status="FINISHED_STOPPED")))
    begun = monotonic()
    sink.close(begun + SHUTDOWN_S)
    return monotonic() - begun


def serve(ledger: Ledger, name: str, keys: RequestKeys) -> None:
    """Three blocks of the same tokens, under the keys of this request; nothing is found."""
    isolated = (keys.adapter, keys.salt, keys.image)
    ledger.lookup(name, 1.0, 49, 0, [(*isolated, n) for n in range(3)], list(range(3)), *isolated)
    ledger.stored(1.0, [(*isolated, n) for n in range(3)], name, 0)
    ledger.scheduled(name, 1.0)
    ledger.finished(name, 2.0)


@pytest.mark.parametrize(
    ("kind", "request_fields"),
    [
        ("salt", {"cache_salt": SECRET}),
        ("image", {"mm_features": [SimpleNamespace(identifier="image-hash")]}),
        ("adapter", {"lora_request": SimpleNamespace(lora_name="sql")}),
    ],
)
def test_eng_13_another_key_is_a_miss_with_its_kind_and_the_salt_stays_inside(
    otlp_receiver: Any, facts: Facts, kind: str, request_fields: dict[str, Any]
) -> None:
    outcomes: list[Outcome] = []
    ledger = Ledger(16, on_outcome=outcomes.append)
    serve(ledger, "plain", read_keys(SimpleNamespace()))
    serve(ledger, "isolated", read_keys(SimpleNamespace(**request_fields)))
    send(facts(otlp_receiver.url), *outcomes)
    _, isolated = otlp_receiver.spans()
    assert isolated.attributes["hitcurve.hit_tokens"] == 0
    assert isolated.attributes["hitcurve.isolated_by"] == [kind]
    assert isolated.attributes["hitcurve.miss_tokens.isolated"] == 48
    said = repr([outcomes, [one.attributes for one in otlp_receiver.spans()], str(isolated.span)])
    assert SECRET not in said
    assert str(hash(SECRET)) not in said


def test_eng_14_a_closed_port_costs_spans_and_five_seconds_at_most(facts: Facts) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1/traces"
    engine = facts(url)
    took_s = send(engine, *(Outcome(f"r{number}", "not_looked_up", 1) for number in range(1000)))
    counts = span_counts(engine)
    assert counts is not None
    assert took_s < SHUTDOWN_S
    assert (counts.submitted, counts.exported, sum(counts.dropped.values())) == (1000, 0, 1000)


def test_eng_18_ids_are_on_spans_only_and_adapters_are_capped(otlp_receiver: Any, facts: Facts) -> None:
    engine = facts(otlp_receiver.url)
    tally = Tally(("0", "tiny"))
    sink = MetricsSink(tally, engine, AdapterLabels(20), [])
    for number in range(10_000):
        outcome = Outcome(f"request-{number}", "looked_up", 16, f"adapter-{number % 500}", 16, 0)
        sink.request_finished(FinishedRequest(outcome, RequestContext()))
    sink.tick(PatchStatus(), Ledger(16).totals)
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: [tally.snapshot()]))
    page = generate_latest(registry).decode()
    assert "request-" not in page
    assert set(re.findall(r'adapter="([^"]*)"', page)) == {"", OTHER, *(f"adapter-{n}" for n in range(20))}
    assert f'hitcurve_engine_requests_total{{adapter="{OTHER}",engine="0",model_name="tiny"}} 9600.0' in page
    send(engine, Outcome("request-7", "looked_up", 16, "adapter-499", 16, 0))
    (received,) = otlp_receiver.spans()
    assert received.attributes["hitcurve.request.id"] == "request-7"
    assert received.attributes["hitcurve.adapter"] == "adapter-499"


def test_eng_19_names_are_the_conventions_or_under_one_prefix(
    otlp_receiver: Any, facts: Facts, repository: Path
) -> None:
    send(facts(otlp_receiver.url), Outcome("r", "looked_up", 100, None, 100, 32, external_hit_tokens=16))
    (received,) = otlp_receiver.spans()
    assert received.attributes["gen_ai.usage.input_tokens"] == 100
    assert received.attributes["gen_ai.usage.cache_read.input_tokens"] == 48
    assert all(re.match(r"gen_ai\.|hitcurve\.", name) for name in received.attributes)
    note = (repository / "docs" / "engine_spans.md").read_text(encoding="utf-8")
    assert re.search(r"semantic conventions 1\.\d+", note)
