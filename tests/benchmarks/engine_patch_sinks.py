"""What spans and metrics of the engine patch cost, in microseconds, on the threads beside the engine's.

``python tests/benchmarks/engine_patch_sinks.py`` prints the best of five runs each. Nothing is sent.
"""

import json
import os
from collections.abc import Callable
from time import perf_counter

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from hitcurve_engine.ledger import MISS_REASONS, Eviction, Outcome, Totals
from hitcurve_engine.metrics.adapter_labels import AdapterLabels
from hitcurve_engine.metrics.sink import MetricsSink
from hitcurve_engine.metrics.tally import Snapshot, Tally
from hitcurve_engine.recording.sinks import (
    EngineFacts,
    EvictionBatch,
    FinishedRequest,
    PatchStatus,
    RequestContext,
)
from hitcurve_engine.spans.encoding import BatchEncoder
from hitcurve_engine.spans.eviction_summary import EvictionSummary
from hitcurve_engine.spans.otlp import finished_spans
from hitcurve_engine.spans.span_maker import RequestItem, SpanMaker

RUNS = 5
BATCH = 64
FACTS = EngineFacts(16, 1000, 1, os.getpid(), 1.7e9, model_name="tiny")
EVICTIONS = EvictionBatch(1.0, "r", (Eviction(1.0, 5.0, 2.0, 1, 3, None, "r", 0),) * BATCH, (None,) * BATCH)


class Serialising:
    """A publisher that does what the hand-over does, without the file."""

    def publish(self, snapshot: Snapshot) -> None:
        json.dumps(snapshot)

    def close(self) -> None:
        """Nothing."""


def request(flags: str, adapter: str | None = None) -> FinishedRequest:
    """A finished request whose trace has these flags (``01`` sampled, ``00`` not)."""
    outcome = Outcome(
        "cmpl-1-0",
        "looked_up",
        100,
        adapter,
        query_tokens=100,
        hit_tokens=70,
        miss_tokens=dict.fromkeys(MISS_REASONS, 5),
        computed_tokens=30,
        lookups=1,
        looked_up_at_s=1.0,
        scheduled_at_s=1.5,
        finished_at_s=2.0,
        queue_s=0.5,
    )
    carrier = {"traceparent": f"00-{7:032x}-{9:016x}-{flags}"}
    return FinishedRequest(
        outcome, RequestContext(carrier, 1.7e9, finish_status="FINISHED_STOPPED", output_tokens=5)
    )


def best_us(work: Callable[[], object], times: int) -> float:
    """Microseconds of one call, in the best of ``RUNS`` runs."""
    runs = []
    for _ in range(RUNS):
        begun = perf_counter()
        for _ in range(times):
            work()
        runs.append(perf_counter() - begun)
    return min(runs) / times * 1e6


def main() -> None:
    """Measure and print."""
    maker = SpanMaker(finished_spans(FACTS, os.environ), FACTS)
    sampled, unsampled = (RequestItem(request(flags), None, None) for flags in ("01", "00"))
    spans = [maker.make(sampled)[0] for _ in range(BATCH)]
    sink = MetricsSink(Tally(("0", "tiny")), FACTS, AdapterLabels(20), [Serialising()])
    status, totals = PatchStatus(), Totals()
    finished = sampled.finished
    print_us("span of a request: make", best_us(lambda: maker.make(sampled), 1000))
    for how, encode in (("the SDK", encode_spans), ("us", BatchEncoder(encode_spans))):
        encoded_us = best_us(lambda encode=encode: encode(spans).SerializePartialToString(), 20)
        print_us(f"span of a request: encoded by {how}", encoded_us / BATCH)
    print_us("span that the sampler does not want", best_us(lambda: maker.make(unsampled), 1000))
    print_us("spans: 64 evictions", best_us(lambda: EvictionSummary(EVICTIONS), 300))
    print_us("metrics: a request", best_us(lambda: sink.request_finished(finished), 1000))
    print_us("metrics: 64 evictions", best_us(lambda: sink.evicted(EVICTIONS), 300))
    print_us("metrics: publishing, once a second", best_us(lambda: sink.tick(status, totals), 100))
    for number in range(30):
        sink.request_finished(request("01", f"adapter-{number}"))
    print_us("metrics: publishing, 20 adapters", best_us(lambda: sink.tick(status, totals), 100))


def print_us(what: str, microseconds: float) -> None:
    """One line."""
    print(f"{what:<40}{microseconds:8.1f} µs")


if __name__ == "__main__":
    main()
