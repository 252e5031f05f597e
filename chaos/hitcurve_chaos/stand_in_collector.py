"""A collector for OTLP over HTTP that takes spans, or is slow, full, hanging, or resets connections."""

import gzip
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, Literal
from urllib.parse import urlsplit

__all__ = ["Mode", "StandInCollector", "spans_in", "stand_in_collector"]

Mode = Literal["takes", "slow", "full", "hangs", "resets"]
"""``slow`` takes spans after ``SLOW_S``; ``full`` answers 503, as a collector does that has no memory left."""

SLOW_S = 1.0
_MOST_HANGING_S = 60.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_LARGEST_BODY = 64 * 1024 * 1024


class StandInCollector:
    """Behaves as ``mode`` says, anew for every request."""

    def __init__(self) -> None:
        self.mode: Mode = "takes"
        self.spans = 0
        """In requests that it answered 200."""
        self.turned_away = 0
        """Requests that it did not answer 200."""
        self._lock = threading.Lock()

    def took(self, spans: int) -> None:
        with self._lock:
            self.spans += spans

    def turns_away(self) -> None:
        with self._lock:
            self.turned_away += 1


@contextmanager
def stand_in_collector(url: str) -> Iterator[StandInCollector]:
    """A collector that listens at host and port of ``url`` while the block lasts; OSError where it cannot."""
    address = urlsplit(url)
    collector = StandInCollector()
    server = ThreadingHTTPServer((address.hostname or "127.0.0.1", address.port or 4318), _handler(collector))
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="collector")
    thread.start()
    try:
        yield collector
    finally:
        collector.mode = "resets"
        server.shutdown()
        thread.join()
        server.server_close()


def spans_in(body: bytes) -> int:
    """How many spans an ``ExportTraceServiceRequest`` holds (opentelemetry-proto 1.x); ValueError where broken.

    They lie three fields deep: ``resource_spans`` (1), ``scope_spans`` (2), ``spans`` (2).
    """
    return sum(1 for group in _fields(body, 1) for scope in _fields(group, 2) for _ in _fields(scope, 2))


def _fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """The length-delimited fields of that number in a protobuf message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(message, at)
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(message):
            raise ValueError("cut off")
        if kind == 2 and tag >> 3 == wanted:
            yield message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("cut off")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def _handler(collector: StandInCollector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(min(length, _LARGEST_BODY))
            if collector.mode in ("full", "hangs", "resets"):
                collector.turns_away()
            waited_s = 0.0
            while collector.mode == "hangs" and waited_s < _MOST_HANGING_S:
                time.sleep(0.05)
                waited_s += 0.05
            if waited_s or collector.mode == "resets":
                self.connection.setsockopt(SOL_SOCKET, SO_LINGER, _RESET_ON_CLOSE)
                self.close_connection = True
                return
            if collector.mode == "slow":
                time.sleep(SLOW_S)
            self._answer(body, full=collector.mode == "full")

        def _answer(self, body: bytes, *, full: bool) -> None:
            found = 0
            try:
                if not full:
                    packed = self.headers.get("Content-Encoding") == "gzip"
                    found = spans_in(gzip.decompress(body) if packed else body)
                status = 503 if full else 200
            except (ValueError, OSError, EOFError):
                status = 400
            # Before the sender knows: it may never count more than this.
            collector.took(found)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *given: Any) -> None:
            """Quiet."""

    return Handler
