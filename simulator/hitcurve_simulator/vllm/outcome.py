"""What one scheduler step did, for a time model to turn into seconds and a server into answers."""

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Admission", "FinishReason", "FinishedRequest", "NewToken", "ScheduledWork", "StepOutcome"]

FinishReason = Literal["length", "stop", "abort"]


@dataclass(frozen=True, slots=True)
class Admission:
    """A request left the waiting queue in this step."""

    request_id: str
    query_tokens: int
    """Tokens of the sequence at admission: the prompt, after a preemption also the output so far."""
    hit_tokens: int
    skipped_lookup: bool = False
    """The request may not read the cache: its tokens are neither query nor miss."""
    resumed: bool = False
    """It had been preempted before."""


@dataclass(frozen=True, slots=True)
class ScheduledWork:
    """Tokens that the model computes for one request in this step."""

    request_id: str
    kind: Literal["prefill", "decode"]
    """``prefill`` also when a resumed request computes its prompt and output again."""
    tokens: int
    context_tokens: int
    """Tokens before them whose KV exists, cached or computed earlier: attention reads these too."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A generated token. ``index`` counts from 0 within the output."""

    request_id: str
    token_id: int
    index: int


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """A request that ended, with its token counts."""

    request_id: str
    reason: FinishReason
    prompt_tokens: int
    output_tokens: int
    hit_tokens: int | None
    """Prompt tokens found at its first admission; None where it did not look the cache up or never ran."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Everything one step did; tuples are in the order in which it happened."""

    admitted: tuple[Admission, ...] = ()
    work: tuple[ScheduledWork, ...] = ()
    prefilled: tuple[str, ...] = ()
    """Requests whose (re)computation caught up: they got a token in this step."""
    new_tokens: tuple[NewToken, ...] = ()
    preempted: tuple[str, ...] = ()
    finished: tuple[FinishedRequest, ...] = ()
    running: int = 0
    """Requests that still hold blocks after the step."""
    waiting: int = 0
    adapters_deferred: tuple[str, ...] = field(default=())
    """Adapters of requests that had to wait because ``max_adapters`` others are active."""

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens computed in this step."""
        return sum(work.tokens for work in self.work if work.kind == "prefill")

    @property
    def decode_tokens(self) -> int:
        """Decoded tokens computed in this step."""
        return sum(work.tokens for work in self.work if work.kind == "decode")

    @property
    def idle(self) -> bool:
        """Nothing was computed."""
        return not self.work
