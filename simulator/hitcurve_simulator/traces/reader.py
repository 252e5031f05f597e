"""A trace file to rows: JSON lines, a JSON list or a session; a bad line is named and does not stop the rest."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from hitcurve.errors import UsageError
from hitcurve_simulator.traces.agent_sessions import block_size_of_session, is_agent_session, rows_of_session
from hitcurve_simulator.traces.conversations import rows_of_conversations
from hitcurve_simulator.traces.formats import (
    AGENT_SESSIONS,
    KV_EVENTS,
    MOONCAKE,
    SHAREGPT,
    TimeUnit,
    TraceFormat,
    format_of,
)
from hitcurve_simulator.traces.json_objects import Lines, stream_objects
from hitcurve_simulator.traces.kv_events import is_batch, rows_of_batches
from hitcurve_simulator.traces.parse_row import RowParser, RowRefused, Turns
from hitcurve_simulator.traces.row import LineFinding, Trace, TraceRow
from hitcurve_simulator.traces.sessions import link_sessions
from hitcurve_simulator.traces.text import Encoder, TextPieces

__all__ = ["TraceStream", "read_trace"]


class TraceStream:
    """A file read row after row, so that no more than its rows is ever in memory.

    Sessions, conversations, KV events and files that are one JSON value are read as a whole. ``block_size``,
    ``format`` and what was found odd are known when ``rows`` has begun, or has ended.
    """

    def __init__(
        self,
        path: Path,
        block_size: int | None = None,
        time_unit: TimeUnit | None = None,
        turns: Turns = "cumulative",
        on_line: Callable[[], None] = lambda: None,
        tokenizer: Encoder | None = None,
        keep_notes: bool = True,
    ) -> None:
        """``keep_notes``: also keep warnings and the turns before, which grow with the file."""
        self.path = path
        self.format = MOONCAKE
        self.block_size = block_size or MOONCAKE.block_size
        self.rejected: list[LineFinding] = []
        self.warnings: list[LineFinding] = []
        self.parents: Lines = []
        """Rows that name the turn before them."""
        self.has_fractions = False
        """Whether timestamps have fractions, which makes them seconds."""
        self._wanted_size = block_size
        self._time_unit = time_unit
        self._turns: Turns = turns
        self._on_line = on_line
        self._tokenizer = tokenizer or TextPieces()
        self._keep_notes = keep_notes

    def rows(self) -> Iterator[TraceRow]:
        """Every row that can be replayed, in the order of the file. Raises UsageError."""
        objects = stream_objects(self.path, self._on_line, self.rejected.append)
        first: Lines = []
        for one in objects:
            first.append(one)
            if isinstance(one[1], dict) or is_batch(one[1]):
                break
        self.format = _format(first)
        self.block_size = self._wanted_size or self.format.block_size
        yield from self._rows_of(chain(first, objects))

    def _rows_of(self, objects: Iterable[tuple[int, object]]) -> Iterator[TraceRow]:
        if self.format is KV_EVENTS:
            self.block_size, rows, refused = rows_of_batches(list(objects), self._wanted_size)
            self.rejected.extend(refused)
            yield from rows
        elif self.format is SHAREGPT:
            rows, refused = rows_of_conversations(list(objects), self._tokenizer)
            self.rejected.extend(refused)
            yield from rows
        else:
            if self.format is AGENT_SESSIONS:
                self.block_size, objects = _requests_of_sessions(list(objects), self._wanted_size)
            yield from self._parsed(objects)

    def _parsed(self, objects: Iterable[tuple[int, object]]) -> Iterator[TraceRow]:
        unit = self._time_unit or self.format.time_unit
        parser = RowParser(self.block_size, unit, self._turns, self._tokenizer)
        for line, values in objects:
            try:
                row, notes = parser.parse(line, values)
            except RowRefused as error:
                self.rejected.append(LineFinding(line, str(error)))
                continue
            finally:
                self._note(line, values)
            if self._keep_notes:
                self.warnings.extend(LineFinding(line, note) for note in notes)
            yield row

    def _note(self, line: int, values: object) -> None:
        if not self._keep_notes or not isinstance(values, dict):
            return
        stamp = values.get("timestamp")
        self.has_fractions = self.has_fractions or (isinstance(stamp, float) and not stamp.is_integer())
        parent = values.get("parent_chat_id")
        if parent is not None:
            self.parents.append((line, {"parent_chat_id": parent}))


def read_trace(
    path: Path,
    block_size: int | None = None,
    time_unit: TimeUnit | None = None,
    turns: Turns = "cumulative",
    strict: bool = False,
    on_line: Callable[[], None] = lambda: None,
    tokenizer: Encoder | None = None,
) -> Trace:
    """Read a trace; ``block_size`` and ``time_unit`` default to those of its format, text becomes pieces.

    ``path`` may be gzip or zstd data, or ``-`` for standard input; a session counts its requests as lines.
    Timestamps with fractions are seconds in every format. ``strict`` stops at the first rejected line.
    Raises UsageError where the file is unreadable or no line can be replayed.
    """
    stream = TraceStream(path, block_size, time_unit, turns, on_line, tokenizer)
    rows = list(stream.rows())
    rejected = sorted(stream.rejected, key=lambda finding: finding.line)
    if rejected and (strict or not rows):
        first = rejected[0]
        raise UsageError(f"{path}, line {first.line}: {first.reason}; correct or remove the line.")
    if not rows:
        raise UsageError(f"{path} holds no request: it is empty.")
    if stream.has_fractions and time_unit is None and stream.format.time_unit == "ms":
        rows = [row if row.arrival_s is None else replace(row, arrival_s=row.arrival_s * 1000) for row in rows]
    rows, sessions, orphans = link_sessions(rows, stream.parents, stream.block_size)
    return Trace(
        format=stream.format.name,
        block_size=stream.block_size,
        rows=tuple(rows),
        rejected=tuple(rejected),
        warnings=tuple(sorted([*stream.warnings, *orphans], key=lambda finding: finding.line)),
        sessions=sessions,
        ids_are_local=stream.format is AGENT_SESSIONS,
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
