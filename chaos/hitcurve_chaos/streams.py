"""Streaming completions that are read as far as a scenario wants, and then hung up on."""

import contextlib
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

__all__ = ["StreamEnd", "read_stream"]


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How far a stream was read. ``whole``: the server ended it as it should, with its last event."""

    status: int | None
    events: int
    whole: bool
    reason: str | None = None


def read_stream(
    engine: str,
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    hang_up_after: int | None = None,
    timeout_s: float = 30.0,
) -> StreamEnd:
    """Stream one completion; close the connection after ``hang_up_after`` events (``None``: read all).

    Never raises for what the other side does.
    """
    address = urlsplit(engine)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=timeout_s)
    events, whole = 0, False
    try:
        connection.request(
            "POST",
            f"{address.path}/v1/completions",
            json.dumps({**body, "stream": True}),
            {"Content-Type": "application/json", **headers},
        )
        answer = connection.getresponse()
        while hang_up_after is None or events < hang_up_after:
            line = answer.readline()
            if not line:
                break
            events += line.startswith(b"data:")
            whole = whole or line.strip() == b"data: [DONE]"
        return StreamEnd(answer.status, events, whole)
    except (OSError, http.client.HTTPException) as error:
        return StreamEnd(None, events, False, str(error) or type(error).__name__)
    finally:
        with contextlib.suppress(OSError):
            connection.close()
