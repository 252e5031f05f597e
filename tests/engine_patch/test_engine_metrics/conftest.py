"""What the tests of the metrics share: an engine played through a real ledger, and the reading of pages."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hitcurve_engine.ledger import Eviction, Ledger
from hitcurve_engine.metrics.adapter_labels import AdapterLabels
from hitcurve_engine.metrics.families import SnapshotCollector
from hitcurve_engine.metrics.sink import MetricsSink
from hitcurve_engine.metrics.tally import Snapshot, Tally
from hitcurve_engine.pool_curve import POOL_SIZES, PoolCurveSums
from hitcurve_engine.recording.sinks import (
    EngineFacts,
    EvictionBatch,
    FinishedRequest,
    PatchStatus,
    RequestContext,
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


_pids = count(1_000_000)


class Kept:
    """A publisher that keeps the last snapshot."""

    def __init__(self) -> None:
        self.snapshot: Snapshot = {}
        self.closed = False

    def publish(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def close(self) -> None:
        self.closed = True


class PlayedEngine:
    """A ledger of 16-token blocks that feeds a metrics sink, as the recorder does."""

    def __init__(self, engine_index: int | None = 0, adapters: int = 20, *publishers: Any) -> None:
        self.facts = EngineFacts(
            16, 100, 1, next(_pids), 0.0, engine_index=engine_index, model_name="tiny", hash_root="0a1b2c3d"
        )
        self.kept = Kept()
        self.tally = Tally((str(engine_index or 0), "tiny"))
        curve = PoolCurveSums(400, dict(zip(POOL_SIZES, range(100, 400, 50), strict=True)), 0.5, 0.25, 77)
        self.status = PatchStatus(pool_curve=curve)
        self.sink = MetricsSink(self.tally, self.facts, AdapterLabels(adapters), [*publishers, self.kept])
        self.evictions: list[Eviction] = []
        self.ledger = Ledger(
            16,
            pool_blocks=100,
            on_outcome=lambda outcome: self.sink.request_finished(FinishedRequest(outcome, RequestContext())),
            on_eviction=self.evictions.append,
            on_regret=self.sink.regretted,
        )

    def request(
        self, at_s: float, tokens: int, hit: int, keys: str, adapter: str | None = None, **lookup: Any
    ) -> None:
        """Look up, schedule, store and finish a request whose full blocks have the letters of ``keys``."""
        name = f"{adapter}-{at_s}"
        self.ledger.lookup(name, at_s, tokens, hit, list(keys), adapter=adapter, **lookup)
        self.ledger.scheduled(name, at_s, hit)
        self.ledger.stored(at_s, list(keys[hit // 16 :]), name, hit // 16)
        self.ledger.finished(name, at_s + 1, tokens)

    def evict(self, at_s: float, keys: str, caused_by: str | None) -> None:
        """Take blocks away."""
        self.evictions.clear()
        self.ledger.evicted(at_s, list(keys), caused_by)
        self.sink.evicted(EvictionBatch(at_s, caused_by, tuple(self.evictions), (None,) * len(self.evictions)))

    def tick(self) -> None:
        """What the recorder does once a second."""
        self.status.cached_keys = self.ledger.cached_keys
        self.status.duplicate_blocks = self.ledger.duplicate_blocks
        self.status.ghost_keys = self.ledger.ghost_keys
        self.sink.tick(self.status, self.ledger.totals)


@pytest.fixture
def played() -> Callable[..., PlayedEngine]:
    """A new engine."""
    return PlayedEngine


@pytest.fixture
def page() -> Callable[..., str]:
    """The text that ``/metrics`` shows of some snapshots."""

    def show(*snapshots: Snapshot) -> str:
        registry = CollectorRegistry()
        registry.register(SnapshotCollector(lambda: snapshots))
        return generate_latest(registry).decode()

    return show


@pytest.fixture
def samples() -> Callable[[str], Samples]:
    """A page as names and labels to values, in the client library's own reading; only what is ours."""

    def read(text: str) -> Samples:
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("hitcurve_engine_")
        }

    return read
