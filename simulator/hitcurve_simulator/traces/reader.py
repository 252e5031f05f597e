"""A trace file to rows: JSON lines, a JSON list or a session; a bad line is named and does not stop the rest."""

from collections.abc import Callable
from pathlib import Path

from hitcurve.errors import UsageError
from hitcurve_simulator.traces.agent_sessions import block_size_of_session, is_agent_session, rows_of_session
from hitcurve_simulator.traces.conversations import rows_of_conversations
from hitcurve_simulator.traces.formats import AGENT_SESSIONS, KV_EVENTS, SHAREGPT, TimeUnit, TraceFormat, format_of
from hitcurve_simulator.traces.json_objects import Lines, read_objects
from hitcurve_simulator.traces.kv_events import is_batch, rows_of_batches
from hitcurve_simulator.traces.parse_row import RowParser, RowRefused, Turns
from hitcurve_simulator.traces.row import LineFinding, Trace, TraceRow
from hitcurve_simulator.traces.sessions import link_sessions
from hitcurve_simulator.traces.text import TextPieces, Tokenizer

__all__ = ["read_trace"]


def read_trace(
    path: Path,
    block_size: int | None = None,
    time_unit: TimeUnit | None = None,
    turns: Turns = "cumulative",
    strict: bool = False,
    on_line: Callable[[], None] = lambda: None,
    tokenizer: Tokenizer | None = None,
) -> Trace:
    """Read a trace; ``block_size`` and ``time_unit`` default to those of its format, text becomes pieces.

    ``path`` may be gzip data, or ``-`` for standard input; a session counts its requests as lines.
    Timestamps with fractions are seconds in every format. ``strict`` stops at the first rejected line.
    Raises UsageError where the file is unreadable or no line can be replayed.
    """
    objects, rejected = read_objects(path, on_line)
    trace_format = _format(objects)
    size = block_size or trace_format.block_size
    if trace_format is AGENT_SESSIONS:
        size, objects = _requests_of_sessions(objects, block_size)
    unit = time_unit or ("s" if _has_fractions(objects) else trace_format.time_unit)
    warnings: list[LineFinding] = []
    if trace_format is KV_EVENTS:
        size, rows, refused = rows_of_batches(objects, block_size)
    elif trace_format is SHAREGPT:
        rows, refused = rows_of_conversations(objects, tokenizer or TextPieces())
    else:
        rows, refused, warnings = _rows(objects, RowParser(size, unit, turns, tokenizer or TextPieces()))
    rejected = sorted([*rejected, *refused], key=lambda finding: finding.line)
    if rejected and (strict or not rows):
        first = rejected[0]
        raise UsageError(f"{path}, line {first.line}: {first.reason}; correct or remove the line.")
    if not rows:
        raise UsageError(f"{path} holds no request: it is empty.")
    rows, sessions, orphans = link_sessions(rows, objects, size)
    return Trace(
        format=trace_format.name,
        block_size=size,
        rows=tuple(rows),
        rejected=tuple(rejected),
        warnings=tuple(sorted([*warnings, *orphans], key=lambda finding: finding.line)),
        sessions=sessions,
        ids_are_local=trace_format is AGENT_SESSIONS,
    )


def _format(objects: Lines) -> TraceFormat:
    """By the first row that has a shape."""
    first = next((value for _, value in objects if isinstance(value, dict) or is_batch(value)), {})
    return KV_EVENTS if is_batch(first) or not isinstance(first, dict) else format_of(first)


def _requests_of_sessions(objects: Lines, block_size: int | None) -> tuple[int, Lines]:
    """Tokens per hash id and the requests of the sessions, numbered through. Raises UsageError if sizes differ."""
    sessions = [value for _, value in objects if isinstance(value, dict) and is_agent_session(value)]
    size = block_size
    rows: list[object] = []
    for session in sessions:
        size = block_size_of_session(session, size)
        rows.extend(rows_of_session(session))
    rows.extend(value for _, value in objects if not is_agent_session(value))
    return size or AGENT_SESSIONS.block_size, list(enumerate(rows, 1))


def _rows(objects: Lines, parser: RowParser) -> tuple[list[TraceRow], list[LineFinding], list[LineFinding]]:
    rows: list[TraceRow] = []
    refused: list[LineFinding] = []
    warnings: list[LineFinding] = []
    for line, values in objects:
        try:
            row, notes = parser.parse(line, values)
        except RowRefused as error:
            refused.append(LineFinding(line, str(error)))
            continue
        rows.append(row)
        warnings.extend(LineFinding(line, note) for note in notes)
    return rows, refused, warnings


def _has_fractions(objects: Lines) -> bool:
    stamps = (row.get("timestamp") for _, row in objects if isinstance(row, dict))
    return any(isinstance(stamp, float) and not stamp.is_integer() for stamp in stamps)
