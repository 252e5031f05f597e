"""What a target can do is asked for without doing it."""

import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hitcurve_chaos.calls import HttpTransport
from hitcurve_chaos.capabilities import Capabilities
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.opened import Drivers
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.targets import AdminAccess, Target


class Flushing:
    """Empties its cache on GET as on POST, as SGLang 0.5.22 does at ``/flush_cache``; 404 elsewhere."""

    def __init__(self) -> None:
        self.flushed: list[str] = []
        flushed = self.flushed

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/flush_cache":
                    flushed.append(self.command)
                self._answer(200 if self.path == "/flush_cache" else 404)

            def do_POST(self) -> None:
                self.do_GET()

            def do_OPTIONS(self) -> None:
                self._answer(405 if self.path == "/flush_cache" else 404)

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def flushing() -> Iterator[Flushing]:
    engine = Flushing()
    yield engine
    engine.close()


def lack_of_reset(engine: str, reset_path: str, folder: Path) -> str | None:
    target = Target("t", engine, "m", admin=AdminAccess(reset_path=reset_path))
    transport = HttpTransport()
    probe = Probe(target, transport, random.Random(1), SystemClock(), folder / "requests.jsonl")
    return Capabilities(target, transport, probe, Drivers()).lack(["reset"])


def test_asking_whether_there_is_a_reset_resets_nothing(flushing: Flushing, tmp_path: Path) -> None:
    assert lack_of_reset(flushing.url, "/flush_cache", tmp_path) is None
    assert flushing.flushed == []


def test_a_reset_that_is_not_there_is_told(flushing: Flushing, tmp_path: Path) -> None:
    assert lack_of_reset(flushing.url, "/reset_prefix_cache", tmp_path) == (
        f"the engine offers no route for a reset ({flushing.url}/reset_prefix_cache: 404)"
    )
