"""One sample on its way through the engine: what is asked, what was generated, when."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hitcurve_simulator.vllm import Request

__all__ = ["Listener", "Sequence", "SequenceReason"]

SequenceReason = str
"""``stop``, ``length``, ``abort`` or ``error``."""

Listener = Callable[["Sequence", int], None]
"""Told of each delivery: the sequence, and how many of its tokens are new; ``finished`` is set by then."""


@dataclass(slots=True, eq=False)
class Sequence:
    """A request of the scheduler with the reply it will get, its listener and its times.

    ``reply`` holds all tokens that will be generated, ``text_tokens`` how many of them are shown (a stop string
    and the end token are not), ``own_reason`` why the last one is the last. Times are monotonic seconds.
    """

    request: Request
    reply: list[int]
    text_tokens: int
    own_reason: SequenceReason
    listener: Listener
    arrived_s: float
    index: int = 0
    """Place among the choices of the answer."""
    max_tokens: int = 1
    samples: int = 1
    stop_reason: str | None = None
    delivered: int = 0
    finished: SequenceReason | None = None
    hit_tokens: int = 0
    preemptions: int = 0
    read_after: int = -1
    """How often blocks had been written when it was last seen what its own hold."""
    misread: bool = False
    """Its blocks held something else, and its reply goes on from that."""
    scheduled_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    family: "list[Sequence]" = field(default_factory=list)
    """All samples of the same prompt, this one included."""

    @property
    def prompt_tokens(self) -> int:
        return self.request.prompt_tokens
