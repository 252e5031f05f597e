"""One GET of a page: compressed answers, bombs, redirects."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from hitcurve_exporter.clock import SystemClock
from hitcurve_exporter.scraping.fetch import Fetcher
from hitcurve_exporter.scraping.fetched import Fetched

Start = Callable[..., Any]
PAGE = b"# TYPE a counter\na_total 1.0\n" * 2000
MOST = 100_000


def fetch(url: str, most: int = MOST) -> Fetched:
    async def once() -> Fetched:
        fetcher = Fetcher(SystemClock())
        try:
            return await fetcher.fetch(f"{url}/metrics", 20.0, most)
        finally:
            await fetcher.close()

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(PAGE)),
        ("x-gzip", gzip.compress(PAGE)),
        ("deflate", zlib.compress(PAGE)),
        ("identity", PAGE),
    ],
)
def test_a_page_is_the_same_however_it_is_sent(encoding: str, body: bytes, scripted_engine: Start) -> None:
    engine = scripted_engine(body, extra_headers={"Content-Encoding": encoding})
    fetched = fetch(engine.url)
    assert (fetched.failure, fetched.body) == (None, PAGE)
    assert engine.headers_seen[0]["Accept-Encoding"] == "identity"


def test_a_page_that_unpacks_to_exactly_the_limit_is_taken_and_one_byte_more_is_not(
    scripted_engine: Start,
) -> None:
    engine = scripted_engine(gzip.compress(PAGE), extra_headers={"Content-Encoding": "gzip"})
    assert fetch(engine.url, len(PAGE)).body == PAGE
    refused = fetch(engine.url, len(PAGE) - 1)
    assert (refused.failure, refused.body) == ("body_too_large", None)


def test_a_bomb_is_never_unpacked(scripted_engine: Start) -> None:
    bomb = gzip.compress(bytes(200 * 1024 * 1024), 9)
    assert len(bomb) < 250_000
    engine = scripted_engine(bomb, extra_headers={"Content-Encoding": "gzip"})
    tracemalloc.start()
    fetched = fetch(engine.url, 1024 * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fetched.failure == "body_too_large"
    assert peak < 20 * 1024 * 1024


@pytest.mark.parametrize(
    ("encoding", "body", "detail"),
    [
        ("br", PAGE, "the page is encoded as 'br', which was not asked for"),
        ("gzip", PAGE, "the page says it is compressed and cannot be unpacked"),
        ("gzip", gzip.compress(PAGE)[:-20], "the page is not one whole compressed text"),
        ("gzip", gzip.compress(PAGE) * 2, "the page is not one whole compressed text"),
        ("gzip", b"", "the page is not one whole compressed text"),
    ],
)
def test_what_cannot_be_unpacked_is_no_page(
    encoding: str, body: bytes, detail: str, scripted_engine: Start
) -> None:
    engine = scripted_engine(body, extra_headers={"Content-Encoding": encoding})
    fetched = fetch(engine.url)
    assert (fetched.failure, fetched.detail) == ("not_metrics", detail)


def test_a_redirect_is_not_followed_and_its_goal_not_told(scripted_engine: Start) -> None:
    goal = scripted_engine(PAGE)
    secret = f"{goal.url}/metrics?token=secret"
    engine = scripted_engine(b"", status=302, extra_headers={"Location": secret})
    fetched = fetch(engine.url)
    assert (fetched.failure, fetched.status) == ("http_status", 302)
    assert fetched.detail == "HTTP 302 (redirects are not followed)"
    assert goal.scrapes == 0
