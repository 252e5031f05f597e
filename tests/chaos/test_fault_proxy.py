"""The fault proxy between real sockets."""

import http.client
import random
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hitcurve_chaos.fault_proxy import FaultProxy, Weather, fault_proxy
from hitcurve_chaos.streams import read_stream

EVENTS = 20


class Stream(BaseHTTPRequestHandler):
    """Streams events to whoever posts."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        for number in range(EVENTS):
            self.wfile.write(f"data: event {number} {'x' * 80}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *words: object) -> None:
        """Quiet."""


class QuietServer(ThreadingHTTPServer):
    """Tells nobody of clients that hang up."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stream)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def upstream_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same behind TLS and a path, 404 outside of it; its certificate is trusted."""

    class BelowAPath(Stream):
        def do_POST(self) -> None:
            if self.path == "/engines/one/v1/completions":
                super().do_POST()
            else:
                self.send_error(404)

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = QuietServer(("127.0.0.1", 0), BelowAPath)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}/engines/one"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def proxy(upstream: str) -> Iterator[FaultProxy]:
    with fault_proxy(upstream, random.Random(1)) as running:
        yield running


def test_in_fair_weather_everything_passes(proxy: FaultProxy) -> None:
    end = read_stream(proxy.url, {}, {})
    assert (end.status, end.events, end.whole, end.reason) == (200, EVENTS + 1, True, None)


def test_latency_and_bandwidth_make_it_slow_and_leave_it_whole(proxy: FaultProxy) -> None:
    proxy.weather = Weather(latency_s=0.1, jitter_s=0.01, bytes_per_s=20_000)
    began = time.monotonic()
    end = read_stream(proxy.url, {}, {})
    assert end.whole
    # 2 kB at 20 kB/s, and at least one piece that is late.
    assert time.monotonic() - began >= 0.2


def test_a_cut_stream_ends_in_the_middle(proxy: FaultProxy) -> None:
    proxy.weather = Weather(cut_after_bytes=900)
    end = read_stream(proxy.url, {}, {})
    assert not end.whole
    assert end.events < EVENTS


def test_a_reset_connection_brings_nothing(proxy: FaultProxy) -> None:
    proxy.weather = Weather(reset=True)
    end = read_stream(proxy.url, {}, {})
    assert (end.status, end.events, end.whole) == (None, 0, False)
    assert end.reason


def test_a_black_hole_is_silent_until_the_client_gives_up(proxy: FaultProxy) -> None:
    proxy.weather = Weather(black_hole=True)
    end = read_stream(proxy.url, {}, {}, timeout_s=0.2)
    assert (end.status, end.events) == (None, 0)
    assert "timed out" in str(end.reason)


def test_weather_changes_for_connections_to_come(proxy: FaultProxy) -> None:
    proxy.weather = Weather(reset=True)
    assert not read_stream(proxy.url, {}, {}).whole
    proxy.weather = Weather()
    assert read_stream(proxy.url, {}, {}).whole


def test_a_client_that_hangs_up_leaves_the_proxy_alive(proxy: FaultProxy) -> None:
    assert read_stream(proxy.url, {}, {}, hang_up_after=2).events == 2
    assert read_stream(proxy.url, {}, {}).whole


def test_an_engine_behind_https_and_a_path_is_reached(
    upstream_https: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_stream(upstream_https, {}, {}).whole
    with fault_proxy(upstream_https, random.Random(1)) as proxy:
        assert read_stream(proxy.url, {}, {}).whole
        proxy.weather = Weather(cut_after_bytes=900)
        assert not read_stream(proxy.url, {}, {}).whole
    monkeypatch.delenv("SSL_CERT_FILE")
    refused = read_stream(upstream_https, {}, {})
    assert (refused.whole, "certificate" in str(refused.reason)) == (False, True)


def test_after_the_block_nothing_listens(upstream: str) -> None:
    with fault_proxy(upstream, random.Random(1)) as proxy:
        proxy.weather = Weather(black_hole=True)
        address = urlsplit(proxy.url)
        hanging = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=5)
        hanging.request("POST", "/", "{}")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        hanging.getresponse()
    hanging.close()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=5).connect()
