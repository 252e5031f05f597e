"""What becomes of the spans of an engine, in exact numbers; the metrics show them."""

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from hitcurve_engine.recording.sinks import EngineFacts

__all__ = ["DROP_REASONS", "DropReason", "SpanCounts", "new_span_counts", "span_counts"]

DropReason = Literal["queue_full", "not_delivered", "shutdown", "error"]
DROP_REASONS: Final[tuple[DropReason, ...]] = get_args(DropReason)


@dataclass(slots=True)
class SpanCounts:
    """``submitted`` = ``exported`` + ``sampled_out`` + all that is dropped + what still waits."""

    submitted: int = 0
    exported: int = 0
    sampled_out: int = 0
    dropped: dict[DropReason, int] = field(default_factory=lambda: dict.fromkeys(DROP_REASONS, 0))
    busy_s: float = 0.0
    """CPU seconds of the thread that makes and sends spans."""


_counts: dict[tuple[int, int | None], SpanCounts] = {}


def new_span_counts(facts: EngineFacts) -> SpanCounts:
    """Fresh counts of an engine, found by ``span_counts`` from now on."""
    counts = _counts[(facts.pid, facts.engine_index)] = SpanCounts()
    return counts


def span_counts(facts: EngineFacts) -> SpanCounts | None:
    """The counts of an engine; ``None`` where it makes no spans."""
    return _counts.get((facts.pid, facts.engine_index))
