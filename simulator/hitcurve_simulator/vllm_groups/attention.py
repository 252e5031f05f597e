"""Kinds of attention: which blocks a hit needs, which a running request can let go, which are worth caching.

Follows ``FullAttentionManager`` and ``SlidingWindowManager`` of ``vllm/v1/core/single_type_kv_cache_manager.py``,
0.24 to 0.32. A hit ends at a multiple of ``unit`` blocks: the groups of a model may have blocks of different
sizes, and a prefix ends where all of them have a boundary. ``drop_last``: EAGLE computes the last block again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hitcurve_simulator.vllm import NULL_BLOCK

__all__ = ["Attention", "Blocks", "Find", "FullAttention", "SlidingWindow", "read_groups"]

Blocks = tuple[int, ...]
"""One block of each group that shares a kind, all for the same tokens."""
Find = Callable[[int], Blocks | None]
"""Blocks cached for the n-th block of a prompt; None where a group has none."""


class Attention(Protocol):
    """One kind of attention with its block size."""

    @property
    def block_size(self) -> int: ...

    def longest_hit(self, find: Find, blocks: int, width: int, unit: int, drop_last: bool) -> list[Blocks]:
        """The longest usable prefix of at most ``blocks`` blocks, for ``width`` groups; null blocks stand where
        nothing is needed any more."""

    def skipped_tokens(self, computed: int) -> int:
        """Tokens at the start that the next token does not attend to."""

    def worth_caching(self, block: int, unit: int, drop_last: bool) -> bool:
        """Whether a hit can ever use this block."""

    def most_blocks(self, in_flight_tokens: int) -> int | None:
        """Blocks that a request holds at most; None: all that its tokens need."""


@dataclass(frozen=True, slots=True)
class FullAttention:
    """Every token attends to all before it: a hit is a leading run of cached blocks."""

    block_size: int

    def __str__(self) -> str:
        return f"full:{self.block_size}"

    def longest_hit(self, find: Find, blocks: int, width: int, unit: int, drop_last: bool) -> list[Blocks]:
        found: list[Blocks] = []
        while len(found) < blocks and (cached := find(len(found))) is not None:
            found.append(cached)
        if drop_last:
            del found[-1:]
        return _aligned(found, unit)

    def skipped_tokens(self, computed: int) -> int:
        return 0

    def worth_caching(self, block: int, unit: int, drop_last: bool) -> bool:
        return True

    def most_blocks(self, in_flight_tokens: int) -> int | None:
        return None


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A token attends to the ``window`` tokens that end with it: a hit needs the blocks of the last window only,
    however much before them is gone."""

    block_size: int
    window: int

    def __str__(self) -> str:
        return f"{self.window}:{self.block_size}"

    def longest_hit(self, find: Find, blocks: int, width: int, unit: int, drop_last: bool) -> list[Blocks]:
        needed, run = self._blocks_of_a_hit(drop_last), 0
        found: list[Blocks] = [(NULL_BLOCK,) * width] * blocks
        for block in reversed(range(blocks)):
            cached = find(block)
            if cached is None:
                run = 0
                continue
            ends_at = block if drop_last else block + 1
            if run == 0 and ends_at % unit:
                continue
            found[block] = cached
            run += 1
            if run >= needed:
                del found[block + run :]
                break
        else:
            # No whole window is there; what begins at the first token needs none.
            del found[run:]
            _aligned(found, unit)
        if drop_last and found:
            found.pop()
            _aligned(found, unit)
        return found

    def skipped_tokens(self, computed: int) -> int:
        return max(0, computed - self.window + 1)

    def worth_caching(self, block: int, unit: int, drop_last: bool) -> bool:
        needed, shift = self._blocks_of_a_hit(drop_last), int(drop_last)
        return needed >= unit or (block >= shift and (block - shift) % unit >= unit - needed)

    def most_blocks(self, in_flight_tokens: int) -> int | None:
        # One more, since a window may begin inside a block.
        return -(-(self.window - 1 + in_flight_tokens) // self.block_size) + 1

    def _blocks_of_a_hit(self, drop_last: bool) -> int:
        return -(-(self.window - 1) // self.block_size) + drop_last


def read_groups(text: str) -> list[Attention]:
    """Groups from text such as ``full:32,128:16,128:16``: a window in tokens or ``full``, and a block size.

    Raises ValueError where it says nothing of the kind.
    """
    return [_read_group(part.strip()) for part in text.split(",")]


def _read_group(text: str) -> Attention:
    kind, _, size = text.partition(":")
    numbers = [size] if kind == "full" else [kind, size]
    if not all(number.isascii() and number.isdigit() and 1 <= int(number) < 1 << 31 for number in numbers):
        raise ValueError(f"'{text}' is no group such as full:32, or 128:16 for a window of 128 tokens")
    return FullAttention(int(size)) if kind == "full" else SlidingWindow(int(size), int(kind))


def _aligned(found: list[Blocks], unit: int) -> list[Blocks]:
    del found[len(found) // unit * unit :]
    return found
