"""Which rows belong to one conversation, and what the next turn tells about the output of the one before."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hitcurve_simulator.traces.row import LineFinding, TraceRow

__all__ = ["link_sessions"]


def link_sessions(
    rows: Sequence[TraceRow], objects: Sequence[tuple[int, object]], block_size: int
) -> tuple[list[TraceRow], tuple[tuple[str, ...], ...], list[LineFinding]]:
    """Rows with their session, the sessions as request ids, and rows whose parent is not before them.

    With ``parent_chat_id`` the ids of the next turn also name the blocks that the turn before generated;
    a block that was half prompt has another id then, since its content changed.
    """
    parents = {line: row.get("parent_chat_id") for line, row in objects if isinstance(row, Mapping)}
    by_id = {row.request.request_id: index for index, row in enumerate(rows)}
    linked = list(rows)
    orphans: list[LineFinding] = []
    for index, row in enumerate(rows):
        parent_id = parents.get(row.line)
        if parent_id in (None, -1):
            continue
        parent = by_id.get(str(parent_id))
        if parent is None or parent >= index:
            where = "is outside the file" if parent is None else "does not come before it"
            orphans.append(LineFinding(row.line, f"parent {parent_id} {where}, starts a session"))
            continue
        session = linked[parent].session or linked[parent].request.request_id
        linked[index] = replace(linked[index], session=session)
        linked[parent] = _with_output_blocks(replace(linked[parent], session=session), row, block_size)
    return linked, _sessions(linked, has_parents=any(value is not None for value in parents.values())), orphans


def _with_output_blocks(parent: TraceRow, child: TraceRow, block_size: int) -> TraceRow:
    request = parent.request
    computed = request.prompt_tokens + max(parent.output_tokens - 1, 0)
    first, end = request.prompt_tokens // block_size, computed // block_size
    ids, named = child.block_ids, request.block_contents
    if ids is None or named is None or len(named) != first or len(ids) < end:
        return parent
    return replace(parent, request=replace(request, block_contents=(*named, *ids[first:end])))


def _sessions(rows: Sequence[TraceRow], has_parents: bool) -> tuple[tuple[str, ...], ...]:
    if not has_parents and not any(row.session for row in rows):
        return ()
    sessions: dict[str, list[str]] = {}
    for row in rows:
        sessions.setdefault(row.session or row.request.request_id, []).append(row.request.request_id)
    return tuple(tuple(members) for members in sessions.values())
