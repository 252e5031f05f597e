"""All answers about traffic whose blocks were named, and whose reuse is found, in shards."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from hitcurve.errors import UsageError
from hitcurve_simulator.estimate.chains import Chains
from hitcurve_simulator.estimate.estimate import Estimator
from hitcurve_simulator.estimate.reuse import Reuse
from hitcurve_simulator.estimate.traffic import FileFinding, Reading, Traffic, load_traffic, trace_files
from hitcurve_simulator.sharded.parts import Part, RowOptions, joined_chains, part_of_lines, part_of_rows
from hitcurve_simulator.sharded.sharded_reuse import sharded_reuse
from hitcurve_simulator.sharded.workers import Workers
from hitcurve_simulator.traces import LineFinding, TraceRow
from hitcurve_simulator.traces.formats import BAILIAN, MOONCAKE, PLAIN, TraceFormat
from hitcurve_simulator.traces.opening import STANDARD_INPUT, open_trace
from hitcurve_simulator.traces.parse_row import TIME_GOES_BACKWARDS
from hitcurve_simulator.traces.reader import TraceStream
from hitcurve_simulator.traces.sessions import link_sessions
from hitcurve_simulator.traces.text import TextPieces

__all__ = ["ShardedEstimator", "sharded_estimator"]

PART_BYTES = 8 * 1024 * 1024
PARTS_A_WORKER = 4
_BY_LINES = (MOONCAKE, BAILIAN, PLAIN)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass
class ShardedEstimator(Estimator):
    """An ``Estimator`` whose chains are given and whose reuse ``workers`` find. Its rows hold no prompts, so that
    other block sizes and breaks cannot be asked for."""

    named: Chains | None = None
    workers: Workers | None = None

    @cached_property
    def chains(self) -> Chains:
        assert self.named is not None
        return self.named

    @cached_property
    def bound_reuse(self) -> Reuse:
        assert self.workers is not None
        return sharded_reuse(self.chains.bound, self.workers)

    @cached_property
    def engine_reuse(self) -> Reuse:
        assert self.workers is not None
        return sharded_reuse(self.chains.engine, self.workers)


def sharded_estimator(
    names: Sequence[str],
    reading: Reading,
    tokenizer: str,
    workers: Workers,
    outputs: bool = False,
    warm_up: float = 0.0,
    on_line: Callable[[], None] = lambda: None,
) -> ShardedEstimator:
    """Read and name in parts. Raises UsageError.

    One file of rows is parsed by the workers, a part of its lines each; with several files, sessions, outputs or
    turns that give only what is new the rows are read here and named by the workers.
    """
    paths = trace_files(names)
    found = _format(paths[0], reading) if len(paths) == 1 and not outputs else None
    if found is not None and found in _BY_LINES and reading.turns == "cumulative":
        traffic, parts = _by_lines(paths[0], found, reading, tokenizer, workers, on_line)
    else:
        traffic, parts = _by_rows(names, reading, workers, outputs, on_line)
    chains = joined_chains([part.chains for part in parts], int(len(traffic.rows) * warm_up))
    return ShardedEstimator(traffic, outputs, warm_up, named=chains, workers=workers)


def _format(path: Path, reading: Reading) -> TraceFormat | None:
    """The format of a file of JSON lines, None where it is none or cannot be read twice."""
    if path == STANDARD_INPUT:
        return None
    with open_trace(path) as file:
        start = file.readline().removeprefix(_BYTE_ORDER_MARK).strip()
    if not start.startswith(b"{") or start == b"{":
        return None
    stream = TraceStream(path, reading.block_size)
    next(stream.rows(), None)
    return stream.format


def _by_lines(
    path: Path,
    found: TraceFormat,
    reading: Reading,
    tokenizer: str,
    workers: Workers,
    on_line: Callable[[], None],
) -> tuple[Traffic, list[Part]]:
    size = reading.block_size or found.block_size
    options = RowOptions(size, reading.time_unit or found.time_unit, tokenizer)
    started = [
        workers.start(part_of_lines, number, first_line, text, options)
        for number, (first_line, text) in enumerate(_text_parts(path, on_line))
    ]
    parts: list[Part] = [workers.result(one) for one in started]
    rejected = [FileFinding(str(path), one.line, one.reason) for part in parts for one in part.rejected]
    rows, warnings = _linked(parts, size)
    if rejected and (reading.strict or not rows):
        raise UsageError(f"{path}, line {rejected[0].line}: {rejected[0].reason}; correct or remove the line.")
    if not rows:
        raise UsageError(f"{path} holds no request: it is empty.")
    return (
        Traffic(
            name=path.name,
            formats=(found.name,),
            block_size=size,
            rows=tuple(rows),
            salts=(),
            tokenizer=reading.tokenizer or TextPieces(),
            rejected=tuple(rejected),
            warnings=tuple(FileFinding(str(path), one.line, one.reason) for one in warnings),
        ),
        [part for part in parts if part.rows],
    )


def _linked(parts: Sequence[Part], block_size: int) -> tuple[list[TraceRow], list[LineFinding]]:
    """Rows of all parts with their sessions, and what only all of them together show to be odd."""
    rows: list[TraceRow] = []
    warnings = [one for part in parts for one in part.warnings]
    known: set[str] = set()
    latest_s = -math.inf
    for row in (row for part in parts for row in part.rows):
        if row.arrival_s is not None:
            if row.arrival_s < latest_s:
                warnings.append(LineFinding(row.line, TIME_GOES_BACKWARDS))
            latest_s = max(latest_s, row.arrival_s)
        if row.request.request_id in known:
            row = replace(row, request=replace(row.request, request_id=f"line {row.line}"))
        known.add(row.request.request_id)
        rows.append(row)
    rows, _, orphans = link_sessions(rows, [one for part in parts for one in part.parents], block_size)
    return rows, sorted([*warnings, *orphans], key=lambda finding: finding.line)


def _by_rows(
    names: Sequence[str],
    reading: Reading,
    workers: Workers,
    outputs: bool,
    on_line: Callable[[], None],
) -> tuple[Traffic, list[Part]]:
    traffic = load_traffic(names, reading, on_line)
    size = max(-(-len(traffic.rows) // (PARTS_A_WORKER * workers.count)), 1)
    started = [
        workers.start(
            part_of_rows,
            number,
            traffic.rows[first : first + size],
            traffic.salts[first : first + size],
            traffic.block_size,
            outputs,
        )
        for number, first in enumerate(range(0, len(traffic.rows), size))
    ]
    return traffic, [workers.result(one) for one in started]


def _text_parts(path: Path, on_line: Callable[[], None]) -> Iterator[tuple[int, bytes]]:
    """Whole lines, with the number of the first one."""
    with open_trace(path) as file:
        first_line, lines = 1, _lines(file, on_line)
        while part := _some(lines):
            text = b"".join(part)
            yield first_line, text.removeprefix(_BYTE_ORDER_MARK) if first_line == 1 else text
            first_line += len(part)


def _lines(file: Iterator[bytes], on_line: Callable[[], None]) -> Iterator[bytes]:
    for line in file:
        on_line()
        yield line


def _some(lines: Iterator[bytes]) -> list[bytes]:
    part: list[bytes] = []
    size = 0
    while size < PART_BYTES and (line := next(lines, None)) is not None:
        part.append(line)
        size += len(line)
    return part
