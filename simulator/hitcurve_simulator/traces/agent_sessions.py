"""Sessions of coding agents as kv-cache-tester records them: a JSON object each, ids valid only within it."""

from collections.abc import Iterator, Mapping
from typing import Any

from hitcurve.errors import UsageError

__all__ = ["block_size_of_session", "is_agent_session", "rows_of_session"]


def is_agent_session(value: object) -> bool:
    """Whether a JSON value is a whole session."""
    return isinstance(value, Mapping) and isinstance(value.get("requests"), list)


def block_size_of_session(session: Mapping[str, Any], wanted: int | None) -> int:
    """Tokens per hash id. Raises UsageError where the session states none, or another one than is wanted."""
    stated = session.get("block_size")
    if not isinstance(stated, int) or isinstance(stated, bool) or stated < 1:
        raise UsageError(f"session {session.get('id')} states no block_size; correct the file.")
    if wanted not in (None, stated):
        raise UsageError(
            f"session {session.get('id')} has hash ids of {stated} tokens, not {wanted}; leave out --block-size."
        )
    return stated


def rows_of_session(session: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The requests as rows of hash ids, those of subagents at their own times among the others."""
    rows = list(_rows(session["requests"], str(session.get("id"))))
    times = [row["timestamp"] for row in rows]
    if all(isinstance(time, int | float) for time in times):
        rows.sort(key=lambda row: float(row["timestamp"]))
    return rows


def _rows(requests: list[Any], session: str) -> Iterator[dict[str, Any]]:
    for request in requests:
        if isinstance(request, Mapping) and isinstance(request.get("requests"), list):
            yield from _rows(request["requests"], session)
            continue
        found = request if isinstance(request, Mapping) else {}
        yield {
            "timestamp": found.get("t"),
            "input_length": found.get("in"),
            "output_length": found.get("out"),
            "hash_ids": found.get("hash_ids"),
            "session": session,
        }
