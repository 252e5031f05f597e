"""Connections that post one kind of request again and again, its head written only once.

geventhttpclient's own ``request`` merges and checks all headers for every request, a fifth of what a short request
costs; its pool is used as it is (geventhttpclient 2.6).
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from geventhttpclient.connectionpool import ConnectionPool, SSLConnectionPool

from hitcurve_loadtests.event_response import EventResponse

__all__ = ["PostConnections"]

_PORTS = {"http": 80, "https": 443}
_RECEIVED_AT_ONCE = 16 * 1024


class PostConnections:
    """A pool of connections to one address and path."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        connections: int,
        connect_timeout_s: float,
        timeout_s: float,
    ) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        kind = SSLConnectionPool if parts.scheme == "https" else ConnectionPool
        more = {"ssl_options": {"server_hostname": host}} if parts.scheme == "https" else {}
        self._pool = kind(
            *(host, port, host, port),
            size=connections,
            connection_timeout=connect_timeout_s,
            network_timeout=timeout_s,
            **more,
        )
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = [f"POST {path} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._head = "".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"Content-Length: %d\r\n\r\n"

    def post(self, body: bytes) -> EventResponse:
        """Send the request and read the headers of the answer; raises OSError or HTTPParseError."""
        connection = self._pool.get_socket()
        try:
            connection.sendall(self._head % len(body) + body)
        except BaseException:
            self._pool.release_socket(connection)
            raise
        return EventResponse(connection, self._pool, block_size=_RECEIVED_AT_ONCE, method="POST")
