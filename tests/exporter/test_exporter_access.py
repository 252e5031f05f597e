"""Who may reload and mark: this machine always, others only where the configuration lets them."""

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from hitcurve_exporter.page.document import PageFormat
from hitcurve_exporter.web.application import application
from hitcurve_exporter.web.marks import Mark


class Site:
    """Notes what it is told."""

    ready = True
    listens_on_loopback = True
    allowed_hosts: frozenset[str] = frozenset()

    def __init__(self, allow_marks: bool) -> None:
        self.allow_marks = allow_marks
        self.done: list[object] = []

    def now_s(self) -> float:
        return 1000.0

    def metrics(self, form: PageFormat) -> bytes:
        return b""

    def landing_page(self) -> str:
        return ""

    def engines(self) -> dict[str, Any]:
        return {}

    async def reload(self) -> None:
        self.done.append("reload")

    async def mark(self, mark: Mark) -> int:
        self.done.append(mark)
        return 1


def post(site: Site, path: str, sender: str, body: bytes = b"") -> int:
    """The status that ``sender`` gets."""

    async def answer() -> int:
        transport = Mock()
        transport.get_extra_info.side_effect = lambda key, default=None: (
            (sender, 40_000) if key == "peername" else None
        )
        payload = StreamReader(Mock(_reading_paused=False), 2**16, loop=asyncio.get_running_loop())
        payload.feed_data(body)
        payload.feed_eof()
        headers = {"Content-Type": "application/json", "X-Forwarded-For": "127.0.0.1"}
        request = make_mocked_request("POST", path, headers, transport=transport, payload=payload)
        found = await application(site).router.resolve(request)
        response = await found.handler(request)
        assert isinstance(response, web.Response)
        return response.status

    return asyncio.run(answer())


@pytest.mark.parametrize(
    ("sender", "reload_status", "mark_status", "allowed_mark_status"),
    [
        ("127.0.0.1", 200, 200, 200),
        ("127.8.0.1", 200, 200, 200),
        ("::1", 200, 200, 200),
        ("::ffff:127.0.0.1", 200, 200, 200),
        ("10.0.0.7", 403, 403, 200),
        ("::ffff:10.0.0.7", 403, 403, 200),
        ("2001:db8::1", 403, 403, 200),
        ("", 403, 403, 200),
    ],
)
def test_only_this_machine_or_whoever_is_allowed(
    sender: str, reload_status: int, mark_status: int, allowed_mark_status: int
) -> None:
    mark = b'{"target": "a", "kind": "reset"}'
    closed, opened = Site(allow_marks=False), Site(allow_marks=True)
    assert post(closed, "/-/reload", sender) == reload_status
    assert post(closed, "/api/v1/marks", sender, mark) == mark_status
    assert post(opened, "/api/v1/marks", sender, mark) == allowed_mark_status
    assert post(opened, "/-/reload", sender) == reload_status
    noted = Mark("reset", 1000.0, "a")
    assert closed.done == (["reload", noted] if mark_status == 200 else [])
    assert opened.done == ([noted, "reload"] if reload_status == 200 else [noted])
