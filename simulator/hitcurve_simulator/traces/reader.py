"""A trace file to rows: JSON lines, a JSON list or a session; a bad line is named and does not stop the rest."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from hitcurve.errors import UsageError
from hitcurve_simulator.traces.agent_sessions import block_size_of_session, is_agent_session, rows_of_session
from hitcurve_simulator.traces.conversations import rows_of_conversations
from hitcurve_simulator.traces.formats import AGENT_SESSIONS, SHAREGPT, TimeUnit, format_of
from hitcurve_simulator.traces.opening import open_trace
from hitcurve_simulator.traces.parse_row import RowParser, RowRefused, Turns
from hitcurve_simulator.traces.row import LineFinding, Trace, TraceRow
from hitcurve_simulator.traces.sessions import link_sessions
from hitcurve_simulator.traces.text import TextPieces, Tokenizer

__all__ = ["read_trace"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"

Lines = list[tuple[int, object]]


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
    objects, rejected = _objects(path, on_line)
    trace_format = format_of(next((row for _, row in objects if isinstance(row, dict)), {}))
    size = block_size or trace_format.block_size
    if trace_format is AGENT_SESSIONS:
        size, objects = _requests_of_sessions(objects, block_size)
    unit = time_unit or ("s" if _has_fractions(objects) else trace_format.time_unit)
    warnings: list[LineFinding] = []
    if trace_format is SHAREGPT:
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


def _objects(path: Path, on_line: Callable[[], None]) -> tuple[Lines, list[LineFinding]]:
    """JSON values with their lines; of a file that is one JSON list, its items with their places."""
    objects: Lines = []
    rejected: list[LineFinding] = []
    with open_trace(path) as file:
        for line, text in _lines(path, file):
            on_line()
            if not objects and not rejected:
                if text.lstrip().startswith(b"["):
                    return _items(path, text + file.read()), []
                if text.strip() == b"{":
                    return [(line, _document(path, text + file.read()))], []
            try:
                objects.append((line, json.loads(text)))
            except UnicodeDecodeError:
                rejected.append(LineFinding(line, "not UTF-8 text"))
            except (ValueError, RecursionError):
                rejected.append(LineFinding(line, f"not JSON: {_start_of(text)}"))
    return objects, rejected


def _items(path: Path, text: bytes) -> Lines:
    return list(enumerate(_document(path, text), 1))


def _document(path: Path, text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "list" if text.lstrip().startswith(b"[") else "object"
        raise UsageError(f"{path} begins like a JSON {kind} and is none: {error}.") from None


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


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers."""
    for line, text in enumerate(file, 1):
        if line == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
            if text.startswith(_LFS_POINTER):
                raise UsageError(_lfs_sentence(path, file.read(1000)))
        if text.strip():
            yield line, text


def _lfs_sentence(path: Path, rest: bytes) -> str:
    size = next((part[5:].strip() for part in rest.splitlines() if part.startswith(b"size ")), b"?")
    return f"{path}: this is a Git LFS pointer, fetch the real file ({size.decode('ascii', 'replace')} bytes)"


def _has_fractions(objects: Lines) -> bool:
    stamps = (row.get("timestamp") for _, row in objects if isinstance(row, dict))
    return any(isinstance(stamp, float) and not stamp.is_integer() for stamp in stamps)


def _start_of(text: bytes) -> str:
    shown = text.strip().decode("utf-8", "replace")
    return repr(shown if len(shown) <= 40 else shown[:37] + "...")
