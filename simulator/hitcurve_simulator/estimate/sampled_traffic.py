"""Trace files read row after row into a sample: held are the sample, the trunk and a few numbers a request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from hitcurve.errors import UsageError
from hitcurve_simulator.estimate.traffic import FileFinding, Reading, trace_files
from hitcurve_simulator.estimate.tree_sample import Sampled, TreeSample
from hitcurve_simulator.traces.formats import AGENT_SESSIONS
from hitcurve_simulator.traces.reader import TraceStream

__all__ = ["SampledTraffic", "sample_traffic"]


@dataclass(frozen=True, slots=True)
class SampledTraffic:
    """``bound`` and ``engine``: the sample under each definition."""

    name: str
    formats: tuple[str, ...]
    block_size: int
    share: float
    seed: int
    bound: Sampled
    engine: Sampled
    rejected: tuple[FileFinding, ...]
    notes: tuple[str, ...]


def sample_traffic(
    names: Sequence[str],
    reading: Reading,
    share: float,
    seed: int,
    outputs: bool,
    on_line: Callable[[], None] = lambda: None,
) -> SampledTraffic:
    """Read files one after the other, in the order in which they are named. Raises UsageError."""
    paths = trace_files(names)
    sample: TreeSample | None = None
    rejected: list[FileFinding] = []
    formats: set[str] = set()
    for place, path in enumerate(paths, 1):
        stream = TraceStream(
            path,
            reading.block_size,
            reading.time_unit,
            reading.turns,
            on_line,
            reading.tokenizer,
            keep_notes=False,
        )
        rows = stream.rows()
        first = next(rows, None)
        if first is not None:
            if sample is None:
                sample = TreeSample(share, stream.block_size, stream.block_size, outputs, seed)
            if stream.block_size != sample.block_size:
                raise UsageError(
                    f"the files differ in tokens per block ({path.name} has {stream.block_size}, others "
                    f"{sample.block_size}); estimate them apart."
                )
            local = reading.ids == "file" or stream.format is AGENT_SESSIONS
            sample.take(chain((first,), rows), salt=place if local and len(paths) > 1 else 0)
        formats.add(stream.format.name)
        rejected += [FileFinding(str(path), found.line, found.reason) for found in stream.rejected]
        if rejected and (reading.strict or (first is None and len(paths) == 1)):
            bad = rejected[0]
            raise UsageError(f"{bad.file}, line {bad.line}: {bad.reason}; correct or remove the line.")
    if sample is None:
        raise UsageError(f"{', '.join(names)} holds no request: it is empty.")
    notes = ["files were read one after the other"] if len(paths) > 1 else []
    return SampledTraffic(
        name=paths[0].name if len(paths) == 1 else f"{len(paths)} files",
        formats=tuple(sorted(formats)),
        block_size=sample.block_size,
        share=share,
        seed=seed,
        bound=sample.bound(),
        engine=sample.engine(),
        rejected=tuple(rejected),
        notes=tuple(notes),
    )
