"""One request of a trace, and what the reader found odd about its lines."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from hitcurve_simulator.vllm import Request

__all__ = ["LineFinding", "Trace", "TraceRow"]


@dataclass(frozen=True, slots=True)
class LineFinding:
    """A line (counted from 1) and what is wrong with it."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A request to replay."""

    line: int
    request: Request
    """``block_contents`` holds ids of full prompt blocks, followed by ids of output blocks where known."""
    block_ids: Sequence[Hashable] | None = None
    """Every id of the row, a partial last block included; None where the row has tokens instead."""
    output_tokens: int = 0
    output_token_ids: tuple[int, ...] = ()
    """The output itself, where it is known."""
    arrival_s: float | None = None
    """Seconds as recorded; None where the row has no timestamp."""
    session: str | None = None
    tenant: str | None = None
    """Whose request it is: ``tenant``, ``tag`` or ``user`` of the row."""
    from_text: bool = False
    """Whether the tokens were made from text, by the tokenizer that read the trace."""

    def prompt_blocks(self, block_size: int) -> int:
        """Blocks of the prompt, a partial last one included unless the row has ids and none for it."""
        length = self.request.prompt_tokens
        if self.block_ids is not None and len(self.block_ids) == length // block_size:
            return len(self.block_ids)
        return -(-length // block_size)


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as read: rows to replay, rejected lines, and warnings about lines that were kept."""

    format: str
    block_size: int
    rows: tuple[TraceRow, ...]
    rejected: tuple[LineFinding, ...] = ()
    warnings: tuple[LineFinding, ...] = ()
    sessions: tuple[tuple[str, ...], ...] = field(default=())
    """Request ids by session, in the order of the file; empty where the trace names no sessions."""
    ids_are_local: bool = False
    """Whether hash ids mean something only within this file."""

    @property
    def duration_s(self) -> float | None:
        """Last minus first arrival in seconds; None where rows have no timestamps."""
        arrivals = [row.arrival_s for row in self.rows if row.arrival_s is not None]
        return max(arrivals) - min(arrivals) if arrivals else None
