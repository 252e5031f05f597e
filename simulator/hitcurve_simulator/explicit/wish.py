"""A prompt with the breakpoints its sender put into it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["LIFETIMES_S", "MOST_BREAKPOINTS", "Breakpoint", "Lifetime", "Prompt"]

Lifetime = Literal["5m", "1h"]
LIFETIMES_S: dict[Lifetime, float] = {"5m": 300.0, "1h": 3600.0}
MOST_BREAKPOINTS = 4


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Cache up to the end of content block ``block``, counted from 0."""

    block: int
    lifetime: Lifetime = "5m"


@dataclass(frozen=True, slots=True)
class Prompt:
    """``keys`` identify the content blocks, each with everything before it; ``ends`` are the tokens up to their
    ends; ``tokens`` is the whole length.

    Raises ValueError for more than four breakpoints, breakpoints out of order or out of the prompt, and a longer
    lifetime behind a shorter one.
    """

    keys: Sequence[Hashable]
    ends: Sequence[int]
    tokens: int
    breakpoints: tuple[Breakpoint, ...] = ()

    def __post_init__(self) -> None:
        if len(self.breakpoints) > MOST_BREAKPOINTS:
            raise ValueError(f"{len(self.breakpoints)} breakpoints; at most {MOST_BREAKPOINTS} are allowed")
        blocks = [each.block for each in self.breakpoints]
        if blocks != sorted(set(blocks)) or any(not 0 <= block < len(self.keys) for block in blocks):
            raise ValueError(
                f"breakpoints at blocks {blocks} of {len(self.keys)} are out of order or of the prompt"
            )
        lifetimes = [LIFETIMES_S[each.lifetime] for each in self.breakpoints]
        if lifetimes != sorted(lifetimes, reverse=True):
            raise ValueError("a breakpoint of 1h comes behind one of 5m; longer lifetimes go first")
