"""What the word after ``hitcurve simulate`` names: a workload or a trace file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hitcurve.errors import UsageError
from hitcurve_simulator.traces import LineFinding, TraceRow, read_trace
from hitcurve_simulator.traces.formats import TimeUnit
from hitcurve_simulator.traces.opening import STANDARD_INPUT
from hitcurve_simulator.traces.parse_row import Turns
from hitcurve_simulator.workloads import CONCURRENCY, WORKLOADS, workload_rows

__all__ = ["Source", "load_source"]

WORKLOAD_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to replay and the settings they come with."""

    name: str
    block_size: int
    rows: tuple[TraceRow, ...]
    concurrency: int
    outputs: bool
    pool_blocks: int | None
    rejected: tuple[LineFinding, ...] = ()
    warnings: tuple[LineFinding, ...] = ()
    format: str | None = None
    duration_s: float | None = None
    sessions: tuple[tuple[str, ...], ...] = ()


def load_source(
    name: str,
    seed: int,
    block_size: int | None,
    time_unit: TimeUnit | None,
    turns: Turns,
    strict: bool,
    on_line: Callable[[], None] = lambda: None,
) -> Source:
    """A workload by its letter, else a trace by its path. Raises UsageError."""
    if name in WORKLOADS:
        size = block_size or WORKLOAD_BLOCK_SIZE
        pool_tokens = WORKLOADS[name].pool_tokens
        return Source(
            name=f"workload {name}",
            block_size=size,
            rows=tuple(workload_rows(name, seed)),
            concurrency=CONCURRENCY,
            outputs=True,
            pool_blocks=None if pool_tokens is None else pool_tokens // size,
        )
    path = Path(name)
    if path != STANDARD_INPUT and not path.exists():
        letters = ", ".join(WORKLOADS)
        raise UsageError(f"'{name}' is neither a workload ({letters}) nor a file; give one of them.")
    trace = read_trace(path, block_size, time_unit, turns, strict, on_line)
    return Source(
        name=path.name,
        block_size=trace.block_size,
        rows=trace.rows,
        concurrency=1,
        outputs=False,
        pool_blocks=None,
        rejected=trace.rejected,
        warnings=trace.warnings,
        format=trace.format,
        duration_s=trace.duration_s,
        sessions=trace.sessions,
    )
