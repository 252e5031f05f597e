"""vLLM V0's prefix-caching allocator (``vllm/core/block/prefix_caching_block.py``, ``core/evictor.py``, 0.8.5).

Blocks are numbers from 0. A block that nobody holds is either without a hash, and then handed out before anything
is evicted, or cached: those go by last access, of equal ones the one with more tokens before its end goes first.
"""

import heapq
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

__all__ = ["BlockPool"]

NEVER = -1.0
"""Last access of a block whose requests were never scheduled."""


@dataclass(slots=True)
class _Block:
    holders: int = 0
    key: Hashable = None
    end_tokens: int = 0
    """Tokens from the start of the sequence to the end of the block."""
    computed: bool = False
    used_at: float = NEVER
    idle: tuple[float, int, int] | None = None
    """Its place among the evictable blocks; None while it is not one."""


class BlockPool:
    """Reference counts, hash table and the order of eviction over ``num_blocks`` blocks (None: no limit)."""

    def __init__(
        self, num_blocks: int | None, on_evicted: Callable[[int, Hashable], None] = lambda block, key: None
    ) -> None:
        self.num_blocks = num_blocks
        self.evictions = 0
        self.on_evicted = on_evicted
        self._blocks: list[_Block] = []
        self._returned: list[int] = []
        self._cached: dict[Hashable, int] = {}
        self._idle: list[tuple[float, int, int]] = []
        self._num_idle = 0
        self._just_filled: set[int] = set()

    @property
    def num_free(self) -> int | None:
        """Blocks that can be handed out, evictable ones included; None where there is no limit."""
        if self.num_blocks is None:
            return None
        return self.num_blocks - len(self._blocks) + len(self._returned) + self._num_idle

    @property
    def num_held(self) -> int:
        """Blocks held by requests."""
        return len(self._blocks) - len(self._returned) - self._num_idle

    def free_order(self) -> list[int]:
        """The free blocks of a limited pool, in the order in which they are handed out."""
        idle = sorted(block.idle for block in self._blocks if block.idle is not None)
        unused = range(len(self._blocks), self.num_blocks or 0)
        return [*reversed(self._returned), *unused, *(number for _, _, number in idle)]

    def cached_block(self, key: Hashable) -> int | None:
        """The block under a key, computed or not."""
        return self._cached.get(key)

    def is_computed(self, key: Hashable) -> bool:
        """Whether the block under a key exists and its content was computed in an earlier step."""
        number = self._cached.get(key)
        return number is not None and (self._blocks[number].computed or not self._blocks[number].holders)

    def take(self) -> int:
        """Hand out a block: a returned one, the last one first; a new one; else the first of the evictable ones.

        Raises ValueError where there is none.
        """
        if self._returned:
            number = self._returned.pop()
        elif self.num_blocks is None or len(self._blocks) < self.num_blocks:
            number = len(self._blocks)
            self._blocks.append(_Block())
        else:
            number = self._evict()
        block = self._blocks[number]
        block.holders, block.computed = 1, False
        return number

    def share(self, number: int) -> None:
        """Hold a cached block once more."""
        block = self._blocks[number]
        block.holders += 1
        if block.holders == 1:
            block.idle = None
            self._num_idle -= 1
            block.computed = True

    def promote(self, number: int, key: Hashable, end_tokens: int) -> int:
        """Register a block that became full. Where the content exists, that block is held instead and this
        one returned. Gives the block to go on with."""
        known = self._cached.get(key)
        if known is not None:
            self.release(number)
            self.share(known)
            return known
        block = self._blocks[number]
        block.key, block.end_tokens = key, end_tokens
        self._cached[key] = number
        self._just_filled.add(number)
        return number

    def mark_computed(self) -> None:
        """The step is scheduled: what it filled can be found from now on."""
        for number in self._just_filled:
            self._blocks[number].computed = True
        self._just_filled.clear()

    def access(self, numbers: Sequence[int], now: float) -> None:
        """Note when held blocks were last used; the last note counts, not the latest time."""
        for number in numbers:
            self._blocks[number].used_at = now

    def release(self, number: int) -> None:
        """Let go of a block; the last holder makes it evictable, or returns it where it has no hash."""
        block = self._blocks[number]
        block.holders -= 1
        if block.holders:
            return
        if block.key is None:
            self._returned.append(number)
        else:
            block.idle = (block.used_at, -block.end_tokens, number)
            heapq.heappush(self._idle, block.idle)
            self._num_idle += 1
        block.used_at, block.computed = NEVER, False

    def reset(self) -> bool:
        """Drop every hash; refused (False) while a block is held. Evictable blocks are returned in their order."""
        if self.num_held:
            return False
        while self._num_idle:
            self._returned.append(self._pop_idle()[0])
        return True

    def _evict(self) -> int:
        if not self._num_idle:
            raise ValueError("no block is free")
        number, key = self._pop_idle()
        self.evictions += 1
        self.on_evicted(number, key)
        return number

    def _pop_idle(self) -> tuple[int, Hashable]:
        while True:
            place = heapq.heappop(self._idle)
            block = self._blocks[place[2]]
            # Places of blocks that were held again since are skipped.
            if block.idle is place:
                break
        block.idle = None
        self._num_idle -= 1
        key, block.key = block.key, None
        del self._cached[key]
        return place[2], key
