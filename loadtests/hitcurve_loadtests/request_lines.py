"""Lines of ``requests.jsonl``, read back: one that was cut off or changed by hand is no request of a load."""

import json
from collections.abc import Set
from typing import Any

__all__ = ["NoRequest", "read_request_line"]


class NoRequest(ValueError):
    """A line is no request; the words say which, and what to do about it."""


def read_request_line(line: str | bytes, place: str, needed: Set[str] = frozenset(("load",))) -> dict[str, Any]:
    """The request of a line at ``place`` (file and number); NoRequest unless it has all ``needed`` keys."""
    try:
        request = json.loads(line)
    except ValueError:
        request = None
    if not isinstance(request, dict) or not request.keys() >= needed:
        raise NoRequest(
            f"{place} is no request of a load: the file was cut off or changed there; take the line out, or run "
            "the load again."
        )
    return request
