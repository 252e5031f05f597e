"""Beginnings of prompts that both sides of the pipe know, so that a shared one is not sent with every request."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

__all__ = ["MOST_HASHES", "KnownPrefixes"]

MOST_HASHES: Final = 1 << 16

V = TypeVar("V")


class KnownPrefixes(Generic[V]):
    """By the last hash of a prefix, which stands for all before it. At most ``most_hashes`` hashes in all: those
    used longest ago go first. Two of them that are used alike hold alike."""

    def __init__(self, most_hashes: int = MOST_HASHES) -> None:
        self._most_hashes = most_hashes
        self._hashes = 0
        self._known: OrderedDict[Hashable, tuple[int, V]] = OrderedDict()

    def add(self, last: Hashable, hashes: int, value: V) -> None:
        """Remember a prefix of so many hashes that is not known yet."""
        self._known[last] = (hashes, value)
        self._hashes += hashes
        while self._hashes > self._most_hashes:
            self._hashes -= self._known.popitem(last=False)[1][0]

    def get(self, last: Hashable) -> V | None:
        """The value of a known prefix."""
        known = self._known.get(last)
        if known is None:
            return None
        self._known.move_to_end(last)
        return known[1]

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()
        self._hashes = 0
