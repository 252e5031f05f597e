"""Sessions of coding agents as kv-cache-tester records them: a JSON object a file, its ids valid only within it.

``{"id", "block_size", "requests": [{"t": s, "in", "out", "hash_ids"}]}``; a subagent's requests are nested and
have times of their own. Think time is in the times: a request is sent when it was sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_loadtests.replay.rows import TraceRow, lengths

__all__ = ["SESSIONS_APART_S", "session_rows"]

SESSIONS_APART_S = 60.0
"""How long after one another the sessions of a folder begin."""


def session_rows(session: Mapping[str, Any], where: str, start_s: float) -> tuple[int, list[TraceRow]]:
    """Tokens of a hash id, and the requests in order of time, the session beginning at ``start_s``."""
    block_size = session.get("block_size")
    if isinstance(block_size, bool) or not isinstance(block_size, int) or block_size < 1:
        raise UsageError(f"{where}: the session states no 'block_size'; correct the file.")
    rows = list(_rows(session["requests"], where, start_s, scope=where))
    return block_size, sorted(rows, key=lambda row: row.at_s or 0.0)


def _rows(requests: Sequence[Any], where: str, start_s: float, scope: str) -> Iterator[TraceRow]:
    for number, request in enumerate(requests, start=1):
        place = f"{where}, request {number}"
        if isinstance(request, Mapping) and isinstance(request.get("requests"), list):
            yield from _rows(request["requests"], place, start_s, scope)
            continue
        if not isinstance(request, Mapping) or not isinstance(request.get("t"), int | float):
            raise UsageError(f"{place}: 't' must be a number of seconds.")
        ids = request.get("hash_ids")
        known = tuple(ids) if isinstance(ids, list) else ()
        prompt, output = lengths(request, place, ("in", "out"), 0)
        yield TraceRow(start_s + request["t"], prompt, output, known, scope=scope)
