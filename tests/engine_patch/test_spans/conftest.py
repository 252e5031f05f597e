"""What the tests of spans share: a real OTLP receiver over HTTP, an engine's facts, finished requests."""

import gzip
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from hitcurve_engine.ledger import Outcome
from hitcurve_engine.recording.sinks import EngineFacts, FinishedRequest, RequestContext

DEADLINE_S = 10.0


def plain(value: AnyValue) -> Any:
    """An attribute's value."""
    kind = value.WhichOneof("value")
    return [plain(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, str(kind))


def attributes(pairs: Any) -> dict[str, Any]:
    """Attributes as a mapping."""
    found: dict[str, Any] = {pair.key: plain(pair.value) for pair in pairs if isinstance(pair, KeyValue)}
    return found


@dataclass
class Received:
    """One span as it arrived."""

    span: Any
    resource: dict[str, Any]
    attributes: dict[str, Any]


@dataclass
class Receiver:
    """A collector. ``behaviour`` is asked before each answer: a status, or 0 to reset the connection."""

    url: str = ""
    behaviour: Callable[[], int] = lambda: 200
    bodies: list[bytes] = field(default_factory=list)
    requests: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, body: bytes, status: int) -> None:
        """A request came."""
        with self.changed:
            self.requests += 1
            if status == 200:
                self.bodies.append(body)
            self.changed.notify_all()

    def wait(self, done: Callable[[], bool]) -> None:
        """Until ``done``, or fail."""
        with self.changed:
            assert self.changed.wait_for(done, DEADLINE_S), f"{self.requests} requests, {len(self.spans())} spans"

    def spans(self) -> list[Received]:
        """All that arrived, in order."""
        return [
            Received(span, attributes(group.resource.attributes), attributes(span.attributes))
            for body in list(self.bodies)
            for group in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def one(self) -> Received:
        """The only span that arrived."""
        (received,) = self.spans()
        return received


def handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status = receiver.behaviour() if self.path == "/v1/traces" else 404
            if status:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                # Lingering for 0 s makes closing a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
            receiver.take(body, status)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A collector on a port of its own."""
    made = Receiver()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(made))
    server.daemon_threads = True
    server.block_on_close = False
    made.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


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
