"""HTTP calls to engines and exporters: whatever the server says is an answer, only silence is an error."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Answer", "HttpTransport", "NoAnswer", "Transport"]

_LARGEST_BODY = 8 * 1024 * 1024


class NoAnswer(Exception):
    """The server could not be reached or did not answer in time; the request may or may not have been done."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of one HTTP answer."""

    status: int
    body: str

    @property
    def redirects(self) -> bool:
        """Whether it sends us elsewhere; nothing follows it, since chaos and its keys stay at the target."""
        return 300 <= self.status < 400

    @property
    def said(self) -> str:
        """Status and body for people."""
        if self.redirects:
            return f"{self.status}, a redirect and not followed; put the engine's own address into the target file"
        return f"{self.status} {self.body.strip()[:200] or 'with an empty body'}"

    def json(self) -> Any:
        """The body as JSON values, ``None`` where it is empty or not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Transport(Protocol):
    """Sends one request; raises NoAnswer."""

    def send(
        self,
        method: str,
        url: str,
        *,
        json_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> Answer: ...


class HttpTransport:
    """Plain HTTP, past any proxy of the environment: a proxy would answer for a dead engine.

    A redirect is an answer like any other: following it would take the fault and the keys off the target.
    """

    def __init__(self) -> None:
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _FollowNothing())

    def send(
        self,
        method: str,
        url: str,
        *,
        json_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> Answer:
        data = None if json_body is None else json.dumps(json_body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers=dict(headers or {}))
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=timeout_s) as answer:
                return Answer(answer.status, answer.read(_LARGEST_BODY).decode(errors="replace"))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read(_LARGEST_BODY).decode(errors="replace"))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(f"{method} {url}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", None) or error
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


class _FollowNothing(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any) -> None:
        return None
