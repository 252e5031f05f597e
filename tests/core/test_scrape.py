"""Fetching a page over real connections, whatever the other side does."""

import contextlib
import http.server
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from hitcurve.scrape import ACCEPT, Scrape, fetch

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


def respond(handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes, length: int) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "text/plain; version=0.0.4")
    handler.send_header("Content-Length", str(length))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Serve one answer to every GET; the URL."""
    servers = []

    def start(answer: Answer) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/metrics"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def fetched(url: str, timeout_s: float = 10, max_bytes: int = 100) -> Scrape:
    return fetch(url, timeout_s, max_bytes, wall=lambda: 5.0, monotonic=lambda: 6.0)


def test_a_page(serve: Callable[[Answer], str]) -> None:
    asked = []

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(handler.headers["Accept"])
        respond(handler, 200, b"up 1\n", 5)

    url = serve(answer)
    assert fetched(url) == Scrape(5.0, 6.0, url, 200, b"up 1\n", "text/plain; version=0.0.4")
    assert asked == [ACCEPT] == ["text/plain; version=0.0.4"]


def test_an_error_status_keeps_its_body(serve: Callable[[Answer], str]) -> None:
    url = serve(lambda handler: respond(handler, 503, b"wait", 4))
    assert fetched(url) == Scrape(5.0, 6.0, url, 503, b"wait", "text/plain; version=0.0.4")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int, serve: Callable[[Answer], str]) -> None:
    asked = []

    def elsewhere(handler: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        respond(handler, 200, b"up 1\n", 5)

    place = serve(elsewhere)

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Location", place)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    scrape = fetched(serve(answer))
    assert (scrape.status, scrape.error, scrape.body, asked) == (status, None, b"", [])


def test_the_largest_page_allowed_and_one_byte_more(serve: Callable[[Answer], str]) -> None:
    url = serve(lambda handler: respond(handler, 200, b"x" * 100, 100))
    assert fetched(url).body == b"x" * 100
    assert fetched(url, max_bytes=99) == Scrape(5.0, 6.0, url, error="the page is larger than 99 bytes")


def test_an_answer_cut_short(serve: Callable[[Answer], str]) -> None:
    url = serve(lambda handler: respond(handler, 200, b"up", 50))
    assert fetched(url) == Scrape(5.0, 6.0, url, error="the answer ended before its announced length")


def test_no_answer_in_time(serve: Callable[[Answer], str]) -> None:
    released = threading.Event()
    url = serve(lambda _: released.wait(30) and None)
    assert fetched(url, timeout_s=0.05) == Scrape(5.0, 6.0, url, error="no answer within 0.05 s")
    released.set()


def test_an_answer_that_drips_longer_than_allowed(serve: Callable[[Answer], str]) -> None:
    left = threading.Event()

    def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
        respond(handler, 200, b"", 10_000)
        with contextlib.suppress(OSError):
            while not left.wait(0.01):
                handler.wfile.write(b"#")
                handler.wfile.flush()

    url = serve(drip)
    found = fetch(url, 0.1, 10_000)
    left.set()
    assert (found.status, found.body, found.error) == (None, None, "no answer within 0.1 s")


def test_a_proxy_of_the_environment_is_not_asked(
    serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert fetched(serve(lambda handler: respond(handler, 200, b"up 1\n", 5))).status == 200


def test_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/metrics"
        assert fetched(url) == Scrape(5.0, 6.0, url, error="connection refused")


def test_an_answer_that_is_not_http(serve: Callable[[Answer], str]) -> None:
    url = serve(lambda handler: handler.wfile.write(b"SSH-2.0-server\r\n"))
    assert fetched(url) == Scrape(5.0, 6.0, url, error="the answer is not HTTP")


def test_other_schemes_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="not an http or https URL: file:///etc/hostname"):
        fetch("file:///etc/hostname", 1, 100)


@pytest.mark.parametrize("url", ["http://a..b/metrics", "http://127.0.0.1:1/ü"])
def test_an_address_that_cannot_be_sent(url: str) -> None:
    assert fetched(url) == Scrape(5.0, 6.0, url, error="the address has characters that none may have")
