"""Fixtures shared by all tests."""

import gzip
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hitcurve.child import ChildProcess

# No test passes or fails by the clock: the first draw of a text alone takes a second on a fresh checkout.
settings.register_profile("hitcurve", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hitcurve")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with cases and public traces beside the checkout (``HITCURVE_SHARED`` names another)."""
    folder = Path(os.environ.get("HITCURVE_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no cases and traces at {folder}; set HITCURVE_SHARED to the folder that holds them")
    return folder


RECEIVE_S = 10.0


def _plain(value: Any) -> Any:
    """An attribute's value."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one) for one in value.array_value.values]
    return getattr(value, str(kind))


def _attributes(pairs: Any) -> dict[str, Any]:
    """Attributes as a mapping."""
    return {pair.key: _plain(pair.value) for pair in pairs}


@dataclass
class OtlpSpan:
    """One span as it arrived."""

    span: Any
    resource: dict[str, Any]
    attributes: dict[str, Any]


@dataclass
class OtlpReceiver:
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

    def wait(self, done: Callable[[], bool], timeout_s: float = RECEIVE_S) -> None:
        """Until ``done``, or fail."""
        with self.changed:
            assert self.changed.wait_for(done, timeout_s), f"{self.requests} requests, {len(self.spans())} spans"

    def spans(self) -> list[OtlpSpan]:
        """All that arrived, in order."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        return [
            OtlpSpan(span, _attributes(group.resource.attributes), _attributes(span.attributes))
            for body in list(self.bodies)
            for group in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def one(self) -> OtlpSpan:
        """The only span that arrived."""
        (received,) = self.spans()
        return received


def _handler(receiver: OtlpReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status = receiver.behaviour() if self.path == "/v1/traces" else 404
            receiver.take(body, status)
            if status:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                # Lingering for 0 s makes closing a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@pytest.fixture
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """A collector on a port of its own."""
    made = OtlpReceiver()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
    server.daemon_threads = True
    server.block_on_close = False
    made.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus' own checker."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed; on Debian it comes with the package prometheus")
    return found


DOCKER_START_S = 20.0


@pytest.fixture(scope="module")
def docker_engine() -> Iterator[str]:
    """The address of a Docker Engine: the one that runs, else one of our own."""
    if shutil.which("docker") is None:
        pytest.skip("no Docker here; on Debian it is the package docker.io")
    running = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if _docker_answers(running):
        yield running
        return
    if shutil.which("dockerd") is None or os.getuid() != 0:
        pytest.skip("no Docker Engine runs, and none can be started without dockerd and root")
    with tempfile.TemporaryDirectory(prefix="hitcurve-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        address = f"unix://{folder}/d.sock"
        places = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
        # Where CAP_SYS_RESOURCE is missing, limits cannot be raised to the engine's own default.
        command = ["dockerd", "-H", address, *places, "--default-ulimit", "nofile=1024:4096"]
        with ChildProcess("dockerd", command, folder / "dockerd.log") as daemon:
            deadline = time.monotonic() + DOCKER_START_S
            while not _docker_answers(address):
                if time.monotonic() > deadline or not daemon.running:
                    pytest.skip(f"dockerd does not start here: {(folder / 'dockerd.log').read_text()[-300:]}")
                time.sleep(0.2)
            yield address


def _docker_answers(address: str) -> bool:
    return subprocess.run(["docker", "-H", address, "info"], capture_output=True, timeout=30).returncode == 0
