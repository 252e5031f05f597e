"""One reason, whichever server was to listen."""

import asyncio
import re
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hitcurve.listening import why_not_listening


def by_socket(host: str, port: int) -> None:
    socket.create_server((host, port)).close()


def by_http_server(host: str, port: int) -> None:
    HTTPServer((host, port), BaseHTTPRequestHandler).server_close()


def by_asyncio(host: str, port: int) -> None:
    async def listen() -> None:
        await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)

    asyncio.run(listen())


SERVERS = pytest.mark.parametrize("listen", [by_socket, by_http_server, by_asyncio])


@SERVERS
def test_a_port_that_is_taken(listen: Callable[[str, int], None]) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match=r"(?i)already in use") as refused,
    ):
        listen("127.0.0.1", taken.getsockname()[1])
    assert why_not_listening(refused.value) == "Address already in use"


@SERVERS
def test_a_host_that_is_none(listen: Callable[[str, int], None]) -> None:
    with pytest.raises(socket.gaierror) as unknown:
        socket.getaddrinfo("256.0.0.1", 0)
    with pytest.raises(OSError, match=re.escape(str(unknown.value.strerror))) as refused:
        listen("256.0.0.1", 0)
    assert why_not_listening(refused.value) == unknown.value.strerror
