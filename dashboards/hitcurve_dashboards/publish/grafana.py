"""The five calls of Grafana's HTTP API that are needed, over grafana-client.

grafana-client continues grafana-api. Its 3.x line is used, which speaks through requests: 4 and 5 bring
urllib3-future, which takes the place of urllib3 for everything installed beside it, the load generator included.
"""

import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import requests
from grafana_client import GrafanaApi
from grafana_client.client import GrafanaClientError, GrafanaException

from hitcurve.errors import EnvironmentFailed, UsageError

__all__ = ["Grafana", "Refused"]

_TIMEOUT_S = 30.0
_SHOWN_CHARACTERS = 300


class Refused(Exception):
    """Grafana answered, and not with 200; ``status`` is its answer, the text its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Grafana:
    """A Grafana by its address; the token is a service account's, and goes nowhere but to that address.

    Every method raises EnvironmentFailed where nobody answers, UsageError where the token is not accepted, and
    Refused for any other answer than the documented one.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._api = GrafanaApi.from_url(self.url, credential=token, timeout=_TIMEOUT_S)
        self._api.client.s.max_redirects = 0
        # Proxies and ~/.netrc would send the token elsewhere, or another one in its place.
        self._api.client.s.trust_env = False

    def folder(self, uid: str) -> Mapping[str, Any] | None:
        """The folder, ``None`` where there is none of that uid."""
        return self._found(f"read the folder {uid}", lambda: self._api.folder.get_folder(_quoted(uid)))

    def create_folder(self, uid: str, title: str) -> None:
        """Make a folder at the top level."""
        self._call(f"make the folder {title!r}", lambda: self._api.folder.create_folder(title, uid=uid))

    def dashboard(self, uid: str) -> Mapping[str, Any] | None:
        """``dashboard`` and ``meta`` of the dashboard, ``None`` where there is none of that uid."""
        return self._found(f"read the dashboard {uid}", lambda: self._api.dashboard.get_dashboard(_quoted(uid)))

    def save_dashboard(self, document: Mapping[str, Any], folder_uid: str, message: str) -> None:
        """Create it, or replace the version ``document`` names; Refused with 412 if it is not the newest."""
        body = {"dashboard": document, "folderUid": folder_uid, "message": message, "overwrite": False}
        self._call(f"save the dashboard {document['uid']}", lambda: self._api.dashboard.update_dashboard(body))

    def annotations(self, tags: list[str], from_ms: int, to_ms: int) -> list[Mapping[str, Any]]:
        """Annotations that carry all the tags."""
        quoted = [_quoted(tag) for tag in tags]
        found: list[Mapping[str, Any]] = self._call(
            "read annotations",
            lambda: self._api.annotations.get_annotation(
                time_from=from_ms, time_to=to_ms, tags=quoted, limit=1000
            ),
        )
        return found

    def annotate(self, from_ms: int, to_ms: int, tags: list[str], text: str) -> None:
        """Mark a stretch of time for the whole organisation."""
        self._call(
            "write an annotation",
            lambda: self._api.annotations.add_annotation(time_from=from_ms, time_to=to_ms, tags=tags, text=text),
        )

    def _found(self, what: str, call: Callable[[], Any]) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self._call(what, call)
        except Refused as refused:
            if refused.status == requests.codes.not_found:
                return None
            raise
        return found

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            answer = call()
        except GrafanaException as error:
            message = _message(error)
            if message.startswith("<"):
                raise EnvironmentFailed(
                    f"{self.url} answers with a web page (HTTP {error.status_code}); is it a Grafana?"
                ) from error
            if isinstance(error, GrafanaClientError) and error.status_code in (401, 403):
                raise UsageError(
                    f"{self.url} does not accept the token to {what}: {message}; give it the role Editor."
                ) from error
            raise Refused(error.status_code, message) from error
        except requests.TooManyRedirects as error:
            raise EnvironmentFailed(
                f"{self.url} redirects, and the token is not sent on; name the address it redirects to."
            ) from error
        except requests.JSONDecodeError as error:
            raise EnvironmentFailed(f"{self.url} answers no JSON; is it a Grafana?") from error
        except requests.RequestException as error:
            reason = _reason(error)
            raise EnvironmentFailed(f"no Grafana answers at {self.url}: {reason}; check the address.") from error
        if isinstance(answer, str):
            raise EnvironmentFailed(f"{self.url} answers no JSON; is it a Grafana?")
        return answer


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")


def _message(error: GrafanaException) -> str:
    response = error.response
    text = response.get("message", response) if isinstance(response, Mapping) else response
    return str(text).strip()[:_SHOWN_CHARACTERS]


def _reason(error: BaseException) -> str:
    """What the system said, where it said something; requests and urllib3 wrap it several times."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror.lower()
        seen = seen.__cause__ or seen.__context__
    return str(error)
