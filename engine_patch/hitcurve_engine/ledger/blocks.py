"""Which blocks are cached, and what is remembered of those that no longer are (ghosts)."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["CACHED", "EVICTED", "RESET", "Block", "BlockTable", "Origin"]

CACHED: Final = 0
EVICTED: Final = 1
RESET: Final = 2


@dataclass(frozen=True, slots=True)
class Origin:
    """What the blocks stored by one request have in common; ``None`` = no such key, or not known."""

    adapter: str | None = None
    salt: Hashable | None = None
    image: Hashable | None = None


class Block:
    """One key, cached or a ghost. ``copies`` counts the engine's blocks that hold it; a ghost has none."""

    __slots__ = (
        "content",
        "copies",
        "depth",
        "fate",
        "gone_at_s",
        "key",
        "last_used_s",
        "origin",
        "reuses",
        "stored_at_s",
    )

    def __init__(
        self, key: Hashable, content: Hashable | None, depth: int | None, origin: Origin, at_s: float
    ) -> None:
        self.key = key
        self.content = content
        self.depth = depth
        self.origin = origin
        self.stored_at_s = at_s
        self.last_used_s = at_s
        self.copies = 1
        self.reuses = 0
        self.fate = CACHED
        self.gone_at_s = 0.0


class BlockTable:
    """Keys of cached blocks and ghosts.

    Ghosts are kept in the order in which their blocks went, at most ``ghosts_per_block`` times the pool
    (``pool_blocks``, or the most keys ever cached at once where that is not known); the oldest are dropped first.
    """

    def __init__(self, pool_blocks: int | None, ghosts_per_block: float) -> None:
        self.cached: dict[Hashable, Block] = {}
        self.ghosts: OrderedDict[Hashable, Block] = OrderedDict()
        self.ghosts_dropped = 0
        self.version = 0
        """Changes whenever a lookup could come out differently."""
        self._by_content: dict[Hashable, tuple[Block, ...]] = {}
        self._pool_blocks = pool_blocks
        self._ghosts_per_block = ghosts_per_block
        self._most_cached = 0

    def store(
        self,
        keys: Sequence[Hashable],
        contents: Iterable[Hashable | None],
        depths: Iterable[int | None],
        origin: Origin,
        at_s: float,
    ) -> list[Block]:
        """Enter one block per key; the blocks in the same order."""
        self.version += 1
        stored = []
        cached, ghosts = self.cached, self.ghosts
        for key, content, depth in zip(keys, contents, depths, strict=False):
            block = cached.get(key)
            if block is None:
                ghosts.pop(key, None)
                block = cached[key] = Block(key, content, depth, origin, at_s)
                if content is not None:
                    self._by_content[content] = (*self._by_content.get(content, ()), block)
            else:
                block.copies += 1
            stored.append(block)
        return stored

    def evict(self, key: Hashable, at_s: float) -> Block | None:
        """Take one copy away; the key becomes a ghost with its last one. ``None`` if it was not cached."""
        block = self.cached.get(key)
        if block is None:
            return None
        self.version += 1
        block.copies -= 1
        if not block.copies:
            self._most_cached = max(self._most_cached, len(self.cached))
            del self.cached[key]
            self._forget_content(block)
            self._bury(block, EVICTED, at_s)
            self._trim()
        return block

    def reset(self, at_s: float) -> int:
        """Clear everything; how many blocks that were, copies included."""
        self.version += 1
        self._most_cached = max(self._most_cached, len(self.cached))
        cleared = 0
        for block in self.cached.values():
            cleared += block.copies
            block.copies = 0
            self._bury(block, RESET, at_s)
        self.cached.clear()
        self._by_content.clear()
        self._trim()
        return cleared

    def cached_under_other_keys(self, content: Hashable, key: Hashable) -> Iterator[Block]:
        """Cached blocks of the same tokens under other keys, oldest first."""
        return (block for block in self._by_content.get(content, ()) if block.key != key)

    def most_ghosts(self) -> int:
        """How many ghosts are kept at most."""
        pool = self._most_cached if self._pool_blocks is None else self._pool_blocks
        return int(self._ghosts_per_block * pool)

    def _bury(self, block: Block, fate: int, at_s: float) -> None:
        block.fate = fate
        block.gone_at_s = at_s
        self.ghosts[block.key] = block

    def _trim(self) -> None:
        surplus = len(self.ghosts) - self.most_ghosts()
        for _ in range(surplus):
            self.ghosts.popitem(last=False)
            self.ghosts_dropped += 1

    def _forget_content(self, block: Block) -> None:
        if block.content is None:
            return
        others = tuple(other for other in self._by_content[block.content] if other is not block)
        if others:
            self._by_content[block.content] = others
        else:
            del self._by_content[block.content]
