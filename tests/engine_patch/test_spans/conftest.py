"""What the tests of spans share: an engine's facts, finished requests, collectors that answer and that do not."""

import socket
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from hitcurve_engine.ledger import Outcome
from hitcurve_engine.recording.sinks import EngineFacts, FinishedRequest, RequestContext


@pytest.fixture
def receiver(otlp_receiver: Any) -> Any:
    """A collector on a port of its own."""
    return otlp_receiver


@pytest.fixture
def dead_url() -> str:
    """An address where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/v1/traces"


@pytest.fixture
def to(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], EngineFacts]:
    """Facts of an engine that sends its spans to a URL, by HTTP, in small batches and at once."""
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")

    def facts(url: str) -> EngineFacts:
        return EngineFacts(
            block_size=16,
            pool_blocks=100,
            groups=1,
            pid=4242,
            wall_offset_s=1_700_000_000.0,
            engine_index=1,
            model_name="tiny",
            traces_endpoint=url,
        )

    return facts


@pytest.fixture
def request_of() -> Callable[..., FinishedRequest]:
    """A finished request of 100 prompt tokens, 32 of them found, 48 evicted before; fields may be replaced."""

    def make(request_id: str = "r-0", context: dict[str, Any] | None = None, **fields: Any) -> FinishedRequest:
        misses = dict.fromkeys(("compulsory", "capacity", "reset", "isolated", "tail", "stranded"), 0)
        usual: dict[str, Any] = {
            "status": "looked_up",
            "prompt_tokens": 100,
            "query_tokens": 100,
            "hit_tokens": 32,
            "miss_tokens": misses | {"capacity": 48, "compulsory": 16, "tail": 4},
            "computed_tokens": 68,
            "lookups": 3,
            "looked_up_at_s": 10.0,
            "scheduled_at_s": 10.5,
            "finished_at_s": 12.0,
            "queue_s": 0.5,
        }
        outcome = Outcome(request_id, **(usual | fields))
        return FinishedRequest(outcome, RequestContext(**(context or {})))

    return make


@pytest.fixture
def in_time() -> Callable[[float], float]:
    """The monotonic time so many seconds from now."""
    return lambda seconds: monotonic() + seconds
