"""vLLM's block pool for one full-attention group (``vllm/v1/core/block_pool.py``, 0.8.5 to 0.32).

Blocks are numbers. Block 0 is the null block: reserved, never handed out. A freed block keeps its hash and
stays hittable until it is handed out again: that reallocation is the eviction.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence

from hitcurve_simulator.vllm.free_queue import FreeQueue
from hitcurve_simulator.vllm.versions import FreeRule

__all__ = ["NULL_BLOCK", "BlockPool"]

NULL_BLOCK = 0


class BlockPool:
    """Reference counts, hash table and free queue over ``num_blocks`` blocks, the null block included."""

    __slots__ = (
        "_duplicates",
        "_first",
        "_free_rule",
        "_keys",
        "_refs",
        "evictions",
        "free_queue",
        "num_blocks",
        "on_evicted",
    )

    def __init__(
        self,
        num_blocks: int | None,
        free_rule: FreeRule = "unhashed_first",
        on_evicted: Callable[[int, Hashable, bool], None] | None = None,
    ) -> None:
        """``num_blocks`` None is a pool without a limit. ``on_evicted`` gets block, key, and
        whether no copy of it is left."""
        if num_blocks is not None and num_blocks < 2:
            raise ValueError(f"a pool of {num_blocks} blocks has no usable block: block 0 is reserved")
        self.num_blocks = num_blocks
        self.on_evicted = on_evicted
        self.evictions = 0
        """Hashed blocks that were reallocated, since start."""
        self.free_queue = FreeQueue(num_blocks)
        self._free_rule = free_rule
        self._refs: list[int] = [1]
        self._keys: list[Hashable] = [None]
        self._first: dict[Hashable, int] = {}
        self._duplicates: dict[Hashable, dict[int, None]] = {}

    @property
    def num_free(self) -> int | None:
        """Blocks that can be handed out, evictable ones included; None where there is no limit."""
        return None if self.num_blocks is None else len(self.free_queue)

    @property
    def num_used(self) -> int:
        """Blocks held by requests."""
        return self.free_queue.used_up_to - 1 - self._returned()

    @property
    def num_cached_keys(self) -> int:
        """Distinct keys that can be hit."""
        return len(self._first)

    def reference_count(self, block: int) -> int:
        """Requests that hold the block."""
        return self._refs[block] if block < len(self._refs) else 0

    def key_of(self, block: int) -> Hashable:
        """Key of a cached block, None where it has none."""
        return self._keys[block] if block < len(self._keys) else None

    def cached_block(self, key: Hashable) -> int | None:
        """The block that a lookup of this key finds: the oldest of several copies."""
        return self._first.get(key)

    def copies_of(self, key: Hashable) -> list[int]:
        """All blocks registered under a key, oldest first."""
        first = self._first.get(key)
        return [] if first is None else [first, *self._duplicates.get(key, ())]

    def longest_prefix(self, keys: Sequence[Hashable], at_most: int) -> list[int]:
        """Blocks of the leading run of cached keys, ``at_most`` of them. Holds nothing."""
        found: list[int] = []
        get = self._first.get
        for key in keys if at_most >= len(keys) else keys[:at_most]:
            block = get(key)
            if block is None:
                break
            found.append(block)
        return found

    def idle_among(self, blocks: Sequence[int]) -> int:
        """How many of these blocks nobody holds, so that holding them shrinks the free queue."""
        refs = self._refs
        return sum([not refs[block] for block in blocks])

    def touch(self, blocks: Sequence[int]) -> None:
        """Hold cached blocks once more; idle ones leave the free queue."""
        refs, idle = self._refs, self.free_queue.tail
        for block in blocks:
            if not refs[block]:
                del idle[block]
            refs[block] += 1

    def take_new(self, count: int) -> list[int]:
        """Hand out the first ``count`` blocks of the free queue; those with a hash are evicted by it.

        Raises ValueError where fewer are free.
        """
        if not self.free_queue.has(count):
            raise ValueError(f"{count} blocks are wanted and {len(self.free_queue)} are free")
        taken = self.free_queue.take(count)
        refs, keys = self._refs, self._keys
        if self.free_queue.used_up_to > len(refs):
            grown = self.free_queue.used_up_to - len(refs)
            refs.extend([0] * grown)
            keys.extend([None] * grown)
        for block in taken:
            refs[block] = 1
        hashed = [block for block in taken if keys[block] is not None]
        if hashed:
            self._evict(hashed)
        return taken

    def cache(self, blocks: Sequence[int], keys: Sequence[Hashable]) -> None:
        """Register full blocks under their keys. Equal content in two blocks stays two blocks."""
        first, key_of = self._first, self._keys
        for block, key in zip(blocks, keys, strict=True):
            key_of[block] = key
            if first.setdefault(key, block) != block:
                self._duplicates.setdefault(key, {})[block] = None

    def free(self, blocks: Iterable[int]) -> None:
        """Let go of blocks, the first to be evicted first. Those that nobody holds any more become free."""
        refs, keys, tail = self._refs, self._keys, self.free_queue.tail
        unhashed_first = self._free_rule == "unhashed_first"
        unhashed = []
        for block in blocks:
            count = refs[block] = refs[block] - 1
            if count:
                continue
            if unhashed_first and keys[block] is None:
                unhashed.append(block)
            else:
                tail[block] = None
        if unhashed:
            self.free_queue.prepend(unhashed)

    def reset_prefix_cache(self) -> bool:
        """Drop every hash; refused (False) while any block is held. The order of the free queue stays."""
        if self.num_used:
            return False
        self._first.clear()
        self._duplicates.clear()
        self._keys = [None] * len(self._keys)
        return True

    def _evict(self, blocks: list[int]) -> None:
        """Take the hash of each block away, in order."""
        first, keys, duplicates, listener = self._first, self._keys, self._duplicates, self.on_evicted
        for block in blocks:
            key = keys[block]
            keys[block] = None
            copied = key in duplicates if duplicates else False
            if copied:
                self._drop_copy(key, block)
            else:
                del first[key]
            if listener is not None:
                listener(block, key, not copied)
        self.evictions += len(blocks)

    def _drop_copy(self, key: Hashable, block: int) -> None:
        """One of several copies goes; the oldest that is left is what a lookup finds."""
        copies = self._duplicates[key]
        if self._first[key] == block:
            self._first[key] = block = next(iter(copies))
        del copies[block]
        if not copies:
            del self._duplicates[key]

    def _returned(self) -> int:
        """Blocks in the free queue that were handed out before."""
        if self.num_blocks is None:
            return len(self.free_queue)
        return len(self.free_queue) - (self.num_blocks - self.free_queue.used_up_to)
