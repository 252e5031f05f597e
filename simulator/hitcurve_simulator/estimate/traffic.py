"""Many trace files to one stream of rows, in the order in which they are replayed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hitcurve.errors import UsageError
from hitcurve_simulator.traces import LineFinding, Trace, TraceRow, read_trace
from hitcurve_simulator.traces.formats import TimeUnit
from hitcurve_simulator.traces.opening import STANDARD_INPUT
from hitcurve_simulator.traces.parse_row import Turns
from hitcurve_simulator.traces.text import TextPieces, Tokenizer

__all__ = ["FileFinding", "IdScope", "Reading", "Traffic", "load_traffic", "trace_files"]

IdScope = Literal["file", "shared"]
"""Whether equal hash ids in different files mean the same block."""

SESSION_START_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class FileFinding:
    """A line of a file and what is wrong with it."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read. ``block_size``: tokens per block, for hash ids tokens per id (None: the format's)."""

    block_size: int | None = None
    time_unit: TimeUnit | None = None
    turns: Turns = "cumulative"
    strict: bool = False
    ids: IdScope = "file"
    start_every_s: float | None = None
    tokenizer: Tokenizer | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Rows of all files. ``salts``, one a row, keep apart the hash ids of different files; ``tokenizer`` is the
    one that read the text."""

    name: str
    formats: tuple[str, ...]
    block_size: int
    rows: tuple[TraceRow, ...]
    salts: tuple[int, ...]
    tokenizer: Tokenizer
    rejected: tuple[FileFinding, ...] = ()
    warnings: tuple[FileFinding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_text(self) -> bool:
        """Whether the text of some rows is known."""
        return any(row.from_text for row in self.rows)

    @property
    def has_ids(self) -> bool:
        """Whether some rows bring hash ids, which fixes the smallest block size."""
        return any(row.request.prompt_token_ids is None for row in self.rows)


def load_traffic(names: Sequence[str], reading: Reading, on_line: Callable[[], None] = lambda: None) -> Traffic:
    """Read files, all files of folders, or ``-``. Raises UsageError."""
    tokenizer = reading.tokenizer or TextPieces()
    paths = trace_files(names)
    traces = [
        read_trace(path, reading.block_size, reading.time_unit, reading.turns, reading.strict, on_line, tokenizer)
        for path in paths
    ]
    size = _one_block_size(paths, traces)
    order, notes = _in_order(traces, reading.start_every_s)
    scopes = [
        0 if reading.ids == "shared" and not trace.ids_are_local else place
        for place, trace in enumerate(traces, 1)
    ]
    if len(traces) == 1:
        scopes = [0]
    elif any(scopes) and any(_has_shareable_ids(trace) for trace in traces):
        notes.append("hash ids of different files are taken for different blocks (--ids shared for parts of one)")
    return Traffic(
        name=paths[0].name if len(paths) == 1 else f"{len(paths)} files",
        formats=tuple(sorted({trace.format for trace in traces})),
        block_size=size,
        rows=tuple(traces[file].rows[place] for file, place in order),
        salts=tuple(scopes[file] for file, _ in order),
        tokenizer=tokenizer,
        rejected=_findings(paths, [trace.rejected for trace in traces]),
        warnings=_findings(paths, [trace.warnings for trace in traces]),
        notes=tuple(notes),
    )


def _has_shareable_ids(trace: Trace) -> bool:
    return not trace.ids_are_local and any(row.block_ids for row in trace.rows)


def trace_files(names: Sequence[str]) -> list[Path]:
    """The files that are named, those of folders among them. Raises UsageError."""
    paths: list[Path] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            found = sorted(file for file in path.iterdir() if file.is_file())
            if not found:
                raise UsageError(f"folder {path} holds no file; give trace files.")
            paths.extend(found)
        elif path == STANDARD_INPUT or path.exists():
            paths.append(path)
        else:
            raise UsageError(f"there is no file '{name}'; give trace files, folders of them, or - for a pipe.")
    if paths.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input is named twice; name it once.")
    return paths


def _one_block_size(paths: Sequence[Path], traces: Sequence[Trace]) -> int:
    sizes = {trace.block_size: path for path, trace in zip(paths, traces, strict=True)}
    if len(sizes) > 1:
        said = ", ".join(f"{path.name} has {size}" for size, path in sizes.items())
        raise UsageError(f"the files differ in tokens per block ({said}); estimate them apart.")
    return next(iter(sizes))


def _in_order(traces: Sequence[Trace], every_s: float | None) -> tuple[list[tuple[int, int]], list[str]]:
    """(file, place) of every row in the order of replay, and what to know about that order."""
    order = [(file, place) for file, trace in enumerate(traces) for place in range(len(trace.rows))]
    if len(traces) == 1:
        return order, []
    if any(row.arrival_s is None for trace in traces for row in trace.rows):
        return order, ["files are replayed one after the other, since not every row has a timestamp"]
    if every_s is None:
        every_s = SESSION_START_EVERY_S if all(trace.ids_are_local for trace in traces) else 0.0
    step_s = every_s
    order.sort(key=lambda at: (traces[at[0]].rows[at[1]].arrival_s or 0.0) + step_s * at[0])
    later = f", each file starting {step_s:g} s after the one before" if step_s else ""
    return order, [f"files are merged by timestamp{later}"]


def _findings(paths: Sequence[Path], found: Iterable[Sequence[LineFinding]]) -> tuple[FileFinding, ...]:
    return tuple(
        FileFinding(str(path), finding.line, finding.reason)
        for path, findings in zip(paths, found, strict=True)
        for finding in findings
    )
