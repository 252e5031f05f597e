"""Provider and exporter of one engine process, from vLLM's endpoint and the standard ``OTEL_*`` variables.

The provider is the engine's own and never the global one: with several API servers vLLM's engine core has none
(seen in 0.32), and a provider from before a fork has lost its thread.
"""

import importlib
import os
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

from hitcurve_engine.recording.sinks import EngineFacts
from hitcurve_engine.spans.attributes import KEPT, resource_attributes
from hitcurve_engine.spans.encoding import BatchEncoder
from hitcurve_engine.spans.finished_spans import FinishedSpans

__all__ = ["ENCODER_LOGGERS", "EXPORTER_LOGGERS", "KeepingSampler", "finished_spans", "is_wanted", "make_exporter"]

EXPORTER_LOGGERS: Final = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
)
ENCODER_LOGGERS: Final = ("opentelemetry.exporter.otlp.proto.common._internal", "opentelemetry.attributes")
"""They say what is left out of a span or cut short."""
_EXPORTERS: Final = {
    "grpc": "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http.trace_exporter",
}
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def is_wanted(facts: EngineFacts, environment: Mapping[str, str]) -> bool:
    """Whether there is an endpoint, and nothing standard says that traces are off."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporters and "otlp" not in [name.strip() for name in exporters.split(",")]:
        return False
    return bool(facts.traces_endpoint) or any(environment.get(name) for name in _ENDPOINTS)


def make_exporter(facts: EngineFacts, environment: Mapping[str, str]) -> Any:
    """An OTLP exporter: gRPC, vLLM's default, unless a variable says ``http/protobuf``.

    Raises ImportError where that exporter is not installed, ValueError for another protocol.
    """
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "grpc")
    if protocol not in _EXPORTERS:
        raise ValueError(f"OTLP protocol {protocol!r} is neither grpc nor http/protobuf")
    module = importlib.import_module(_EXPORTERS[protocol])
    _encode_quickly(module)
    make = module.OTLPSpanExporter
    endpoint = facts.traces_endpoint
    if not endpoint:
        return make()
    if protocol == "grpc" and urlsplit(endpoint).scheme not in ("http", "https"):
        # vLLM speaks plain gRPC to an endpoint without a scheme; so must we, to the same endpoint.
        return make(endpoint=endpoint, insecure=True)
    return make(endpoint=endpoint)


def finished_spans(facts: EngineFacts, environment: Mapping[str, str]) -> FinishedSpans:
    """What makes the spans of an engine. No processor sees them: whoever has a span made also exports it."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    resource = Resource.create(resource_attributes(facts, environment))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    sampler: Any = KeepingSampler(provider.sampler)
    return FinishedSpans(sampler, provider.resource, _OwnIds())


def _encode_quickly(exporter: ModuleType) -> None:
    # An exporter has no parameter for it. One that no longer calls this function encodes as it likes, only slower.
    standard = getattr(exporter, "encode_spans", None)
    if standard is None or isinstance(standard, BatchEncoder):
        return
    # So does one whose messages are not those that we know.
    with suppress(ImportError, AttributeError):
        exporter.encode_spans = BatchEncoder(standard)  # type: ignore[attr-defined]


class KeepingSampler:
    """The sampler of the standard variables (parent-based by default), overruled by the mark ``KEPT``."""

    def __init__(self, chosen: Any) -> None:
        self._chosen = chosen

    def should_sample(
        self,
        parent_context: Any,
        trace_id: int,
        name: str,
        kind: Any = None,
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[Any] | None = None,
        trace_state: Any = None,
    ) -> Any:
        """See ``opentelemetry.sdk.trace.sampling.Sampler``."""
        if attributes and KEPT in attributes:
            from opentelemetry.sdk.trace.sampling import Decision, SamplingResult
            from opentelemetry.trace import get_current_span

            state = get_current_span(parent_context).get_span_context().trace_state
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes, state)
        return self._chosen.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        """See ``opentelemetry.sdk.trace.sampling.Sampler``."""
        return f"KeepingSampler({self._chosen.get_description()})"


class _OwnIds:
    """The SDK draws ids from the interpreter's shared generator, which vLLM seeds: engines with equal seeds would
    give equal ids, and drawing would change what others draw."""

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(32))

    def generate_span_id(self) -> int:
        return self._random.randrange(1, 1 << 64)

    def generate_trace_id(self) -> int:
        return self._random.randrange(1, 1 << 128)
