"""Samplers of the standard variables and of others decide, and add, as for spans that the SDK makes."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, SamplingResult
from opentelemetry.trace import TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hitcurve_engine.spans.encoding import BatchEncoder
from hitcurve_engine.spans.finished_spans import SCOPE, FinishedSpans


class Ids:
    """The same for whoever asks."""

    def __init__(self) -> None:
        self._random = random.Random(7)

    def generate_span_id(self) -> int:
        return self._random.randrange(1, 1 << 64)

    def generate_trace_id(self) -> int:
        return self._random.randrange(1, 1 << 128)

    def is_trace_id_random(self) -> bool:
        return True


class Own:
    """A sampler of somebody's."""

    def __init__(self, decision: Decision, state: TraceState | None) -> None:
        self._decision, self._state = decision, state

    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        return SamplingResult(self._decision, {"list": ["a"], "object": object, "a": (1,)}, self._state)

    def get_description(self) -> str:
        return "Own"


CARRIERS = [{}] + [
    {"traceparent": f"00-{number:032x}-{9:016x}-{flags}", "tracestate": "vendor=1"}
    for number in (1, 2**127 - 1)
    for flags in ("00", "01", "02", "03")
]


def both(sampler: Any) -> Iterator[tuple[Any, Any]]:
    """The span that we make and the one that the SDK makes, where it is to be sent; ``None`` where not."""
    resource = Resource({"service.name": "vllm"})
    maker = FinishedSpans(sampler, resource, Ids())
    provider = TracerProvider(sampler, resource, shutdown_on_exit=False, id_generator=Ids())  # type: ignore[arg-type]
    for carrier in CARRIERS * 3:
        context = TraceContextTextMapPropagator().extract(carrier, Context())
        begun = maker.begin("span", context)
        ours = maker.end(begun, (1, 2), {"value": 1}) if begun.sampled else None
        theirs: Any = provider.get_tracer(SCOPE).start_span("span", context, start_time=1)
        sent = theirs.get_span_context().trace_flags.sampled
        assert begun.context == theirs.get_span_context()
        theirs.set_attribute("value", 1)
        theirs.end(2)
        yield ours, theirs if sent else None


SAMPLERS = ["always_on", "always_off", "traceidratio"]


@pytest.mark.parametrize("name", SAMPLERS + [f"parentbased_{name}" for name in SAMPLERS])
def test_the_samplers_of_the_standard_decide_as_for_spans_of_the_sdk(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    for ours, theirs in both(TracerProvider(shutdown_on_exit=False).sampler):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert encode_spans([ours]) == encode_spans([theirs])


@pytest.mark.parametrize("state", [None, TraceState([("own", "x")])])
@pytest.mark.parametrize("decision", Decision)
def test_what_a_sampler_adds_is_said_as_the_sdk_says_it(decision: Decision, state: TraceState | None) -> None:
    encoder = BatchEncoder(encode_spans)
    pairs = list(both(Own(decision, state)))
    assert {ours is None for ours, _ in pairs} == {decision is not Decision.RECORD_AND_SAMPLE}
    assert [ours is None for ours, _ in pairs] == [theirs is None for _, theirs in pairs]
    ours, theirs = ([span for span in spans if span is not None] for spans in zip(*pairs, strict=True))
    assert encoder(ours) == encode_spans(theirs)
