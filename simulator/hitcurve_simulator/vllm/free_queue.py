"""The queue of free blocks in the order in which they are handed out. Every operation is O(1) per block."""

from collections import OrderedDict
from collections.abc import Iterator

__all__ = ["FreeQueue"]


class FreeQueue:
    """Three parts in order: blocks put back at the head, blocks never used, blocks put back at the tail.

    Never-used blocks exist as a range, so that a pool without a limit costs nothing until it is used. ``tail``
    is open to the pool, which puts single blocks in and takes them out: a call per block would cost more than
    the work.
    """

    __slots__ = ("_head", "_next_fresh", "_num_blocks", "tail")

    def __init__(self, num_blocks: int | None) -> None:
        """Blocks 1 to ``num_blocks`` - 1 are free; None means that fresh blocks never run out."""
        self._head: list[int] = []
        self._next_fresh = 1
        self._num_blocks = num_blocks
        self.tail: OrderedDict[int, None] = OrderedDict()
        """Blocks put back at the tail, in order; every cached block that nobody holds lies here."""

    @property
    def used_up_to(self) -> int:
        """One more than the highest block ever handed out."""
        return self._next_fresh

    def has(self, count: int) -> bool:
        """Whether this many blocks are free."""
        return self._num_blocks is None or count <= len(self)

    def __len__(self) -> int:
        """Free blocks of a limited pool; an unlimited one counts only those that were used before."""
        fresh = 0 if self._num_blocks is None else self._num_blocks - self._next_fresh
        return len(self._head) + fresh + len(self.tail)

    def __iter__(self) -> Iterator[int]:
        yield from reversed(self._head)
        if self._num_blocks is not None:
            yield from range(self._next_fresh, self._num_blocks)
        yield from self.tail

    def take(self, count: int) -> list[int]:
        """Remove and return the first ``count`` blocks; the caller checked ``has(count)``."""
        taken: list[int] = []
        head = self._head
        while head and len(taken) < count:
            taken.append(head.pop())
        missing = count - len(taken)
        if missing:
            start = self._next_fresh
            end = start + missing
            if self._num_blocks is not None and end > self._num_blocks:
                end = self._num_blocks
            if end > start:
                taken.extend(range(start, end))
                self._next_fresh = end
            pop = self.tail.popitem
            taken.extend([pop(last=False)[0] for _ in range(count - len(taken))])
        return taken

    def prepend(self, blocks: list[int]) -> None:
        """Put blocks at the head; the first of them is handed out first."""
        self._head.extend(reversed(blocks))
