"""How long a request wants its blocks kept (``executor::KvCacheRetentionConfig``)."""

from dataclasses import dataclass

__all__ = ["HIGHEST_PRIORITY", "Retention", "TokenRange"]

HIGHEST_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class TokenRange:
    """Prompt tokens from ``start`` to ``end`` (None: to the end of the prompt). ``priority`` is 0 to 100; after
    ``duration_s`` without use it falls back to the default, None: never.

    Raises ValueError for values outside.
    """

    start: int
    end: int | None
    priority: int
    duration_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.priority <= HIGHEST_PRIORITY:
            raise ValueError(f"retention priority {self.priority} is not between 0 and {HIGHEST_PRIORITY}")
        if self.start < 0 or (self.end is not None and self.end <= self.start):
            raise ValueError(f"tokens {self.start} to {self.end} are no range")
        if self.duration_s is not None and self.duration_s < 0:
            raise ValueError(f"a duration of {self.duration_s} s is negative")


@dataclass(frozen=True, slots=True)
class Retention:
    """Ranges of the prompt, and what holds for blocks of generated tokens."""

    ranges: tuple[TokenRange, ...] = ()
    decode_priority: int | None = None
    decode_duration_s: float | None = None

    def of_block(self, index: int, block_size: int, prompt_tokens: int) -> tuple[int | None, float | None]:
        """Priority and duration of a block: that of the last range that covers its first token; None: not set."""
        start = index * block_size
        if start >= prompt_tokens:
            return self.decode_priority, self.decode_duration_s
        found: tuple[int | None, float | None] = (None, None)
        for tokens in self.ranges:
            if tokens.start <= start and (tokens.end is None or start < tokens.end):
                found = tokens.priority, tokens.duration_s
        return found
