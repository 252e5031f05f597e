"""One attempt to read a page, and how to make it with nothing but the standard library."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ACCEPT", "Scrape", "fetch"]

ACCEPT = "text/plain; version=0.0.4"
_CHUNK_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one request for a page brought; a failed one is a record too."""

    at_s: float
    """Wall clock, Unix seconds; in recordings the recorded time, which may count from any start."""
    monotonic_s: float
    """Monotonic clock in seconds; equals ``at_s`` in recordings."""
    target: str
    status: int | None = None
    """HTTP status; ``None`` where no answer came."""
    body: bytes | str | None = None
    content_type: str | None = None
    error: str | None = None
    """Why there is no complete answer, in a few words; ``None`` when there is one."""


def fetch(
    url: str,
    timeout_s: float,
    max_bytes: int,
    *,
    wall: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> Scrape:
    """Get ``url`` directly (no proxy) and never raise for what the other side does.

    ``timeout_s`` bounds every wait and the whole answer. Refused connections, timeouts, cut answers and bodies
    above ``max_bytes`` become ``Scrape.error``; an HTTP error status is an answer and keeps its status and body.
    So is a redirect, which is not followed.
    A URL that is not http or https raises ValueError.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"not an http or https URL: {url}")
    at_s, monotonic_s = wall(), monotonic()
    reading = _Reading(monotonic_s + timeout_s, max_bytes, monotonic)
    try:
        status, body, content_type = _answer(url, timeout_s, reading)
    except _TooLarge:
        return Scrape(at_s, monotonic_s, url, error=f"the page is larger than {max_bytes} bytes")
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        return Scrape(at_s, monotonic_s, url, error=_reason(error, timeout_s))
    return Scrape(at_s, monotonic_s, url, status, body, content_type)


class _TooLarge(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads a body within a size and until a moment of the clock."""

    until_s: float
    max_bytes: int
    clock: Callable[[], float]

    def body(self, response: http.client.HTTPResponse) -> bytes:
        parts, size = [], 0
        while part := response.read1(_CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            if size > self.max_bytes:
                raise _TooLarge
            if self.clock() > self.until_s:
                raise TimeoutError
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(parts)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could lead anywhere, so it is an answer with its status like any other."""

    def redirect_request(self, *of_no_interest: object) -> None:
        """Follow none."""


def _answer(url: str, timeout_s: float, reading: _Reading) -> tuple[int, bytes, str | None]:
    request = urllib.request.Request(url, headers={"Accept": ACCEPT, "User-Agent": "hitcurve"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return response.status, reading.body(response), response.headers.get("Content-Type")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(reading.max_bytes), error.headers.get("Content-Type")


def _reason(error: Exception, timeout_s: float) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, http.client.IncompleteRead):
        return "the answer ended before its announced length"
    if isinstance(cause, http.client.BadStatusLine) and not isinstance(cause, ConnectionError):
        return "the answer is not HTTP"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    if isinstance(cause, UnicodeError):
        return "the address has characters that none may have"
    return str(cause) or type(cause).__name__
