"""Which blocks are cached, and what is remembered of those that no longer are (ghosts)."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hitcurve_engine.ledger.gone_keys import GoneKeys

__all__ = ["Block", "BlockTable", "Ghost", "Origin"]


@dataclass(frozen=True, slots=True)
class Origin:
    """What the blocks stored by one request have in common; ``None`` = no such key, or not known."""

    adapter: str | None = None
    salt: Hashable | None = None
    image: Hashable | None = None
    adapter_load: int = 0
    """Which weights the adapter of this name had: 0 for the first, one more for each reload with others."""


class Ghost(NamedTuple):
    """How a cached key went. Keys that went at one time share one: a ghost costs little more than its key."""

    gone_at_s: float | None
    """``None``: too long ago to be known."""
    by_reset: bool


_LONG_AGO: Final = {by_reset: Ghost(None, by_reset=by_reset) for by_reset in (False, True)}


class Block:
    """One cached key. ``copies`` counts the engine's blocks that hold it."""

    __slots__ = (
        "content",
        "copies",
        "depth",
        "last_used_s",
        "origin",
        "reuses",
        "stored_at_s",
    )

    def __init__(self, depth: int | None, origin: Origin, at_s: float) -> None:
        self.content: Hashable | None = None
        self.depth = depth
        self.origin = origin
        self.stored_at_s = at_s
        self.last_used_s = at_s
        self.copies = 1
        self.reuses = 0


class BlockTable:
    """Keys of cached blocks and ghosts.

    Ghosts are kept in the order in which their blocks went, at most ``ghosts_per_block`` times the pool
    (``pool_blocks``, or the most keys ever cached at once where that is not known). The oldest go into a compact
    memory of ``gone_keys`` keys, which is made when the first does; without one they are dropped.
    """

    def __init__(self, pool_blocks: int | None, ghosts_per_block: float, gone_keys: int) -> None:
        self.cached: dict[Hashable, Block] = {}
        self.ghosts: OrderedDict[Hashable, Ghost] = OrderedDict()
        self._dropped = 0
        self._most_gone_keys = gone_keys
        self._gone_keys: GoneKeys | None = None
        self.duplicates = 0
        """Blocks of the engine beyond the first with the same key."""
        self.version = 0
        """Changes whenever a lookup could come out differently."""
        self._by_content: dict[Hashable, Block] = {}
        """Of the cached blocks of these tokens, under any key, the one cached longest."""
        self._same_content: dict[Hashable, list[Block]] = {}
        """The later ones, in order; mostly there are none."""
        self._pool_blocks = pool_blocks
        self._ghosts_per_block = ghosts_per_block
        self._most_cached = 0
        self._last_ghost = Ghost(0.0, by_reset=False)

    def store(
        self,
        keys: Sequence[Hashable],
        contents: Sequence[Hashable] | None,
        first_index: int | None,
        origin: Origin,
        at_s: float,
    ) -> list[Block]:
        """Enter one block per key; the blocks in the same order. ``contents`` may be shorter than ``keys``."""
        self.version += 1
        cached, ghosts = self.cached, self.ghosts
        stored = []
        depth = first_index
        for key in keys:
            block = cached.get(key)
            if block is None:
                if key in ghosts:
                    del ghosts[key]
                block = cached[key] = Block(depth, origin, at_s)
            else:
                block.copies += 1
                self.duplicates += 1
            stored.append(block)
            if depth is not None:
                depth += 1
        if contents:
            self._index_contents(stored, contents)
        return stored

    def evict(self, keys: Iterable[Hashable], at_s: float) -> list[Block]:
        """Take one copy of each key away; with its last one it becomes a ghost. Those that were cached."""
        self.version += 1
        cached, ghosts = self.cached, self.ghosts
        self._most_cached = max(self._most_cached, len(cached))
        ghost = self._last_ghost
        if ghost.gone_at_s != at_s:
            ghost = self._last_ghost = Ghost(at_s, by_reset=False)
        taken = []
        for key in keys:
            block = cached.get(key)
            if block is None:
                continue
            taken.append(block)
            block.copies -= 1
            if block.copies:
                self.duplicates -= 1
            else:
                del cached[key]
                content = block.content
                if content is not None:
                    if content in self._same_content:
                        self._forget_content(block, content)
                    else:
                        del self._by_content[content]
                ghosts[key] = ghost
        self._trim()
        return taken

    def reset(self, at_s: float) -> int:
        """Clear everything; how many blocks that were, copies included."""
        self.version += 1
        self._most_cached = max(self._most_cached, len(self.cached))
        cleared = len(self.cached) + self.duplicates
        self.duplicates = 0
        self.ghosts.update(dict.fromkeys(self.cached, Ghost(at_s, by_reset=True)))
        self.cached.clear()
        self._by_content.clear()
        self._same_content.clear()
        self._trim()
        return cleared

    def forget(self) -> None:
        """Give up all that is cached, without ghosts: it is not known whether it still is."""
        self.version += 1
        self.duplicates = 0
        self.cached.clear()
        self._by_content.clear()
        self._same_content.clear()

    def first_with(self, content: Hashable) -> Block | None:
        """Of the cached blocks of these tokens, under any key, the one cached longest; ``None`` without one."""
        return self._by_content.get(content)

    def ghost(self, key: Hashable) -> Ghost | None:
        """How a key that is not cached went; ``None`` where it never was cached, or that is forgotten."""
        ghost = self.ghosts.get(key)
        if ghost is None and self._gone_keys is not None:
            by_reset = self._gone_keys.by_reset(key)
            return None if by_reset is None else _LONG_AGO[by_reset]
        return ghost

    @property
    def ghosts_dropped(self) -> int:
        """Keys of which nothing is remembered any more."""
        return self._dropped if self._gone_keys is None else self._gone_keys.forgotten

    def most_ghosts(self) -> int:
        """How many ghosts are kept at most."""
        pool = self._most_cached if self._pool_blocks is None else self._pool_blocks
        return int(self._ghosts_per_block * pool)

    def _trim(self) -> None:
        for _ in range(len(self.ghosts) - self.most_ghosts()):
            key, ghost = self.ghosts.popitem(last=False)
            if not self._most_gone_keys:
                self._dropped += 1
                continue
            if self._gone_keys is None:
                self._gone_keys = GoneKeys(self._most_gone_keys)
            self._gone_keys.add(key, by_reset=ghost.by_reset)

    def _index_contents(self, blocks: Sequence[Block], contents: Sequence[Hashable]) -> None:
        by_content = self._by_content
        for block, content in zip(blocks, contents, strict=False):
            if block.content is None:
                block.content = content
                if by_content.setdefault(content, block) is not block:
                    self._same_content.setdefault(content, []).append(block)

    def _forget_content(self, block: Block, content: Hashable) -> None:
        later = self._same_content[content]
        if self._by_content[content] is block:
            self._by_content[content] = later.pop(0)
        else:
            later[:] = [other for other in later if other is not block]
        if not later:
            del self._same_content[content]
