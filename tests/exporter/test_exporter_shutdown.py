"""The end: no new connection, answers on their way are finished."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from hitcurve.reading import Reading
from hitcurve_exporter.configuration.records import ExporterConfig
from hitcurve_exporter.scraping.fetched import Fetched

Start = Callable[..., Any]
DEADLINE_S = 20.0


class SlowMonitor:
    """Reads a page until it is told to be done."""

    episodes: ClassVar[dict[str, tuple[object, ...]]] = {}
    done = threading.Event()
    reading = threading.Event()

    def observe(self, fetched: Fetched) -> tuple[Reading, ...]:
        self.reading.set()
        assert self.done.wait(DEADLINE_S)
        return ()

    def mark(self, kind: str, at_s: float) -> None:
        return


def test_a_request_that_waits_is_answered_before_the_end(
    scripted_engine: Start,
    start_exporter: Start,
    eventually: Callable[..., Any],
    watching: Callable[..., ExporterConfig],
) -> None:
    """A mark waits for the page that is just being read; one so large is read in a thread."""
    engine = scripted_engine("#\n" * 1_000_000)
    exporter = start_exporter(watching(engine.url), monitor_factory=lambda target, config: SlowMonitor())
    assert SlowMonitor.reading.wait(DEADLINE_S)
    body = f'{{"target": "{engine.url}", "kind": "reset"}}'.encode()
    host, port = urlsplit(exporter.url).hostname or "", urlsplit(exporter.url).port or 0
    head = (
        f"POST /api/v1/marks HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, port), DEADLINE_S) as connection:
        connection.sendall(head.encode() + body)
        assert exporter.ask("/-/healthy").status == 200
        stopped = asyncio.run_coroutine_threadsafe(exporter.service.stop(), exporter._loop)
        eventually(lambda: not exporter.service._runner.sites)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, port), DEADLINE_S)
        assert not stopped.done()
        SlowMonitor.done.set()
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
    stopped.result(DEADLINE_S)


def test_sigterm_lets_a_page_that_is_on_its_way_arrive(
    scripted_engine: Start, eventually: Callable[..., Any], page_of: Callable[..., str], tmp_path: Path
) -> None:
    engine = scripted_engine("".join(page_of(1000 * n, 500 * n, n, engine=str(n)) for n in range(1000)))
    config = tmp_path / "exporter.yaml"
    # So much that no buffer of the system holds it.
    targets = "".join(f"  - url: {engine.url}/{number}\n" for number in range(4))
    config.write_text(f"max_engines_per_target: 1000\ninterval: 2s\ntargets:\n{targets}")
    command = [sys.executable, "-m", "hitcurve", "exporter", "--listen", "127.0.0.1:0", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("listening on ").strip()
            eventually(lambda: is_ready(url))
            take_slowly(url, process)
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()


def take_slowly(url: str, process: subprocess.Popen[str]) -> None:
    """Ask for the page, end the exporter, and only then read on."""
    host, port = urlsplit(url).hostname or "", urlsplit(url).port or 0
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.connect((host, port))
        connection.sendall(f"GET /metrics HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        received = connection.recv(100)
        process.send_signal(signal.SIGTERM)
        refused_within(host, port)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2.0)
        while chunk := connection.recv(65536):
            received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")]
    assert len(body) == int(length.split()[1]) > 8_000_000


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=DEADLINE_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def refused_within(host: str, port: int) -> None:
    """Return once new connections are refused."""
    while True:
        try:
            socket.create_connection((host, port), DEADLINE_S).close()
        except ConnectionRefusedError:
            return
        os.sched_yield()
