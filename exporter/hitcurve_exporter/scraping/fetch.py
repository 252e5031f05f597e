"""One GET of an engine's page, bounded in time and size."""

import ssl
import zlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

import aiohttp

from hitcurve import __version__
from hitcurve_exporter.clock import Clock
from hitcurve_exporter.configuration.access_records import EngineAccess
from hitcurve_exporter.scraping.access import AccessFailed, Credentials
from hitcurve_exporter.scraping.fetched import FailureReason, Fetched

__all__ = ["Fetcher"]

PLAIN_TEXT: Final = "text/plain; version=0.0.4, */*; q=0.1"
"""It keeps colons in metric names."""
_HEADERS: Final = {
    "Accept-Encoding": "identity",
    "User-Agent": f"hitcurve-exporter/{__version__}",
}
"""Uncompressed spares the engine 40 ms of gzip a page."""
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_CHUNK_BYTES: Final = 256 * 1024
_HTTP_OK: Final = 200


class Fetcher:
    """Fetches pages over one pool of connections; ``close`` it when done. Needs a running event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._credentials = Credentials()
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=30, keepalive_timeout=60)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def fetch(
        self,
        url: str,
        timeout_s: float,
        max_body_bytes: int,
        access: EngineAccess | None = None,
        *,
        accept: str = PLAIN_TEXT,
    ) -> Fetched:
        """The page at ``url``, or the reason why there is none; raises only when cancelled."""
        try:
            headers = {"Accept": accept, **self._credentials.headers(access)}
            context = self._credentials.context(access)
        except AccessFailed as error:
            at_s, monotonic_s = self._clock.wall(), self._clock.monotonic()
            return Fetched(at_s, monotonic_s, 0.0, failure="credentials", detail=str(error))
        get = self._session.get(
            url,
            timeout=_within(timeout_s),
            allow_redirects=False,
            headers=headers,
            ssl=True if context is None else context,
            server_hostname=None if access is None or access.tls is None else access.tls.server_name,
        )
        return await self._answer(get, timeout_s, max_body_bytes)

    async def post(
        self,
        url: str,
        timeout_s: float,
        max_body_bytes: int,
        *,
        form: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> Fetched:
        """The answer to a form, within the same bounds."""
        post = self._session.post(
            url, timeout=_within(timeout_s), allow_redirects=False, headers=headers, data=dict(form)
        )
        return await self._answer(post, timeout_s, max_body_bytes)

    async def _answer(
        self, request: AbstractAsyncContextManager[aiohttp.ClientResponse], timeout_s: float, max_body_bytes: int
    ) -> Fetched:
        at_s, started = self._clock.wall(), self._clock.monotonic()

        def failed(reason: FailureReason, detail: str, status: int | None = None) -> Fetched:
            spent = self._clock.monotonic() - started
            return Fetched(at_s, started, spent, status, failure=reason, detail=detail)

        try:
            async with request as response:
                if response.status != _HTTP_OK:
                    return failed("http_status", _status_in_words(response), response.status)
                body = await _bounded_body(response, max_body_bytes)
                if body is None:
                    return failed("body_too_large", f"the page is larger than {max_body_bytes} bytes", 200)
                spent = self._clock.monotonic() - started
                content_type = response.headers.get("Content-Type", "")
                return Fetched(at_s, started, spent, response.status, content_type, body)
        except TimeoutError:
            return failed("timeout", f"no complete answer within {timeout_s:g} s")
        except _Encoded as error:
            return failed("not_metrics", str(error), _HTTP_OK)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return failed(*_reason(error))

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()


def _within(timeout_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=timeout_s)


def _reason(error: Exception) -> tuple[FailureReason, str]:
    """Which failure it is, and the failure in words."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    words = (cause.strerror if isinstance(cause, OSError) else str(cause)) or type(cause).__name__
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "name_not_resolved", f"the name cannot be resolved ({words})"
    if isinstance(error, aiohttp.ClientSSLError) or isinstance(cause, ssl.SSLError):
        return "tls", f"no TLS connection ({words})"
    if isinstance(cause, ConnectionRefusedError):
        return "connection_refused", "connection refused"
    return "connection_failed", words


def _status_in_words(response: aiohttp.ClientResponse) -> str:
    """A redirect could lead anywhere, so none is followed; where it leads may be a secret and is not told."""
    redirect = " (redirects are not followed)" if 300 <= response.status < 400 else ""
    return f"HTTP {response.status}{redirect}"


class _Encoded(Exception):
    """The body is encoded in a way that nobody asked for."""


async def _bounded_body(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """The body, unpacked, or ``None`` once it is larger than ``most`` bytes; no more than that is ever held."""
    if response.content_length is not None and response.content_length > most:
        response.close()
        return None
    unpack = _unpacker(response.headers.get("Content-Encoding", ""))
    chunks: list[bytes] = []
    size = 0
    async for packed in response.content.iter_chunked(_CHUNK_BYTES):
        chunk = packed if unpack is None else _unpacked(unpack, packed, most + 1 - size)
        size += len(chunk)
        if size > most:
            response.close()
            return None
        chunks.append(chunk)
    if unpack is not None and (not unpack.eof or unpack.unused_data):
        raise _Encoded("the page is not one whole compressed text")
    return b"".join(chunks)


def _unpacker(encoding: str) -> "zlib._Decompress | None":
    """What unpacks the body. Some servers compress although they were asked not to."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(_GZIP_OR_ZLIB)
    raise _Encoded(f"the page is encoded as {name[:20]!r}, which was not asked for")


def _unpacked(unpack: "zlib._Decompress", packed: bytes, most: int) -> bytes:
    if unpack.eof:
        raise _Encoded("the page goes on after the end of its compressed form")
    try:
        return unpack.decompress(packed, most)
    except zlib.error as error:
        raise _Encoded("the page says it is compressed and cannot be unpacked") from error
