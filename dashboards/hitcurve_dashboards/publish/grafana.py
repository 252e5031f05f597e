"""The five calls of Grafana's HTTP API that are needed, over the standard library.

A client library is not used: the maintained one brings urllib3-future, which takes the place of urllib3 for
everything installed beside it, the load generator's HTTP included.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from hitcurve.errors import EnvironmentFailed, UsageError

__all__ = ["Grafana", "Refused"]

_TIMEOUT_S = 30.0
_SHOWN_BYTES = 300


class Refused(Exception):
    """Grafana answered, and not with 200; ``status`` is its answer, the text its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token goes to the address that was named, and nowhere else."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


class Grafana:
    """A Grafana by its address; the token is a service account's.

    Every method raises EnvironmentFailed where nobody answers, UsageError where the token is not accepted, and
    Refused for any other answer than the documented one.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect)

    def folder(self, uid: str) -> Mapping[str, Any] | None:
        """The folder, ``None`` where there is none of that uid."""
        return self._found(f"/api/folders/{urllib.parse.quote(uid, safe='')}")

    def create_folder(self, uid: str, title: str) -> None:
        """Make a folder at the top level."""
        self._call("POST", "/api/folders", {"uid": uid, "title": title})

    def dashboard(self, uid: str) -> Mapping[str, Any] | None:
        """``dashboard`` and ``meta`` of the dashboard, ``None`` where there is none of that uid."""
        return self._found(f"/api/dashboards/uid/{urllib.parse.quote(uid, safe='')}")

    def save_dashboard(self, document: Mapping[str, Any], folder_uid: str, message: str) -> None:
        """Create it, or replace the version ``document`` names; Refused with 412 if it is not the newest."""
        body = {"dashboard": document, "folderUid": folder_uid, "message": message, "overwrite": False}
        self._call("POST", "/api/dashboards/db", body)

    def annotations(self, tags: list[str], from_ms: int, to_ms: int) -> list[Mapping[str, Any]]:
        """Annotations that carry all the tags."""
        query = urllib.parse.urlencode({"from": from_ms, "to": to_ms, "tags": tags, "limit": 1000}, doseq=True)
        found: list[Mapping[str, Any]] = self._call("GET", f"/api/annotations?{query}")
        return found

    def annotate(self, from_ms: int, to_ms: int, tags: list[str], text: str) -> None:
        """Mark a stretch of time for the whole organisation."""
        self._call("POST", "/api/annotations", {"time": from_ms, "timeEnd": to_ms, "tags": tags, "text": text})

    def _found(self, path: str) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self._call("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise
        return found

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                message = _message(error.read(_SHOWN_BYTES))
            if error.code in (401, 403):
                raise UsageError(
                    f"{self.url} does not accept the token for {method} {path}: {message}; "
                    "give it the role Editor."
                ) from error
            raise Refused(error.code, message) from error
        except json.JSONDecodeError as error:
            raise EnvironmentFailed(f"{self.url}{path} answers no JSON; is it a Grafana?") from error
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise EnvironmentFailed(f"no Grafana answers at {self.url}: {reason}; check the address.") from error


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()
