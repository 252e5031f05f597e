"""Blocks, the tree they can be found in, and the queues they are taken from
(``cpp/tensorrt_llm/batch_manager/evictionPolicy.cpp`` and ``kvCacheManager.cpp``).

Every free block lies in the queue of its priority. The first block of the lowest queue that is not empty is taken,
so a cached block of low priority goes before one that was never used. A block that is taken leaves the tree with
everything below it.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

__all__ = ["DEFAULT_PRIORITY", "BlockTree"]

DEFAULT_PRIORITY = 35


@dataclass(slots=True)
class _Block:
    holders: int = 0
    key: Hashable = None
    parent: Hashable = None
    priority: int = DEFAULT_PRIORITY
    duration_s: float | None = None
    expires_at: float | None = None
    queued: int | None = None
    """The priority of the queue it lies in; None while it is held."""


@dataclass(slots=True)
class BlockTree:
    """``num_blocks`` blocks (None: no limit). ``on_evicted`` gets the key of each block that leaves the tree."""

    num_blocks: int | None
    on_evicted: Callable[[Hashable], None] = lambda key: None
    evictions: int = 0
    _blocks: list[_Block] = field(default_factory=list)
    _queues: dict[int, OrderedDict[int, None]] = field(default_factory=dict)
    _found: dict[Hashable, int] = field(default_factory=dict)
    _below: dict[Hashable, dict[Hashable, None]] = field(default_factory=dict)
    _expiring: list[tuple[float, int]] = field(default_factory=list)

    @property
    def num_free(self) -> int | None:
        """Blocks that nobody holds; None where there is no limit."""
        if self.num_blocks is None:
            return None
        return self.num_blocks - len(self._blocks) + sum(map(len, self._queues.values()))

    @property
    def num_held(self) -> int:
        """Blocks that requests hold."""
        return len(self._blocks) - sum(map(len, self._queues.values()))

    def longest_prefix(self, keys: Sequence[Hashable]) -> list[int]:
        """Blocks of the leading run of keys that are in the tree."""
        blocks: list[int] = []
        for key in keys:
            if (block := self._found.get(key)) is None:
                break
            blocks.append(block)
        return blocks

    def idle_among(self, blocks: Sequence[int]) -> int:
        """How many of the blocks nobody holds."""
        return sum(not self._blocks[block].holders for block in blocks)

    def claim(self, number: int, priority: int | None, duration_s: float | None) -> None:
        """Hold a block of the tree; its duration is replaced, its priority only where one is given."""
        block = self._blocks[number]
        self._leave_queue(number)
        block.holders += 1
        if priority is not None:
            block.priority = priority
        block.duration_s = duration_s

    def take(self, priority: int | None, duration_s: float | None) -> int:
        """Hold a block without content. Raises ValueError where none is free."""
        number = self._first_free()
        block = self._blocks[number]
        self._leave_queue(number)
        if block.key is not None:
            self._drop(block.key)
            self.evictions += 1
        block.holders = 1
        block.priority = DEFAULT_PRIORITY if priority is None else priority
        block.duration_s = duration_s
        return number

    def store(self, number: int, key: Hashable, parent: Hashable) -> bool:
        """Put a full block into the tree; False where an equal one is there, or its parent is not."""
        block = self._blocks[number]
        if key in self._found or (parent is not None and parent not in self._found) or block.key is not None:
            return False
        block.key, block.parent = key, parent
        self._found[key] = number
        self._below.setdefault(parent, {})[key] = None
        return True

    def release(self, number: int, now: float) -> None:
        """Let go of a block; the last holder puts it at the end of its queue and starts its duration."""
        block = self._blocks[number]
        block.holders -= 1
        if block.holders:
            return
        self._join_queue(number)
        if block.duration_s is not None and block.priority != DEFAULT_PRIORITY:
            block.expires_at = now + block.duration_s
            heapq.heappush(self._expiring, (block.expires_at, number))

    def refresh(self, now: float) -> None:
        """Free blocks whose duration is over fall back to the default priority, behind all others there."""
        while self._expiring and self._expiring[0][0] <= now:
            expires_at, number = heapq.heappop(self._expiring)
            block = self._blocks[number]
            if block.expires_at == expires_at and block.queued is not None:
                self._leave_queue(number)
                block.priority = DEFAULT_PRIORITY
                self._join_queue(number)

    def _first_free(self) -> int:
        unused = self.num_blocks is None or len(self._blocks) < self.num_blocks
        for priority in sorted(self._queues):
            if unused and priority >= DEFAULT_PRIORITY:
                break
            if self._queues[priority]:
                return next(iter(self._queues[priority]))
        if not unused:
            raise ValueError("no block is free")
        self._blocks.append(_Block())
        return len(self._blocks) - 1

    def _drop(self, key: Hashable) -> None:
        """Take a key and all below it out of the tree; the blocks below keep their places in the queues."""
        gone = [key]
        for parent in gone:
            gone.extend(self._below.get(parent, ()))
        for each in reversed(gone):
            block = self._blocks[self._found.pop(each)]
            below = self._below[block.parent]
            del below[each]
            if not below:
                del self._below[block.parent]
            block.key = block.parent = None
            self.on_evicted(each)

    def _join_queue(self, number: int) -> None:
        block = self._blocks[number]
        block.queued = block.priority
        self._queues.setdefault(block.priority, OrderedDict())[number] = None

    def _leave_queue(self, number: int) -> None:
        block = self._blocks[number]
        if block.queued is not None:
            del self._queues[block.queued][number]
            block.queued = block.expires_at = None
