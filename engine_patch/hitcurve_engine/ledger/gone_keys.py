"""A compact memory of keys that went long ago: four bytes each, and whether a reset or an eviction took them."""

from array import array
from collections.abc import Hashable
from typing import Final

__all__ = ["GoneKeys"]

_WAYS: Final = 8
_ODD: Final = 0x9E3779B97F4A7C15
_WORD: Final = (1 << 64) - 1
_FINGERPRINT: Final = (1 << 31) - 1


class GoneKeys:
    """Remembers about ``slots`` keys (rounded up to a power of two, at least 8), by a fingerprint of 31 bits.

    A key belongs to one of many buckets of eight; a full one gives up its oldest. With as many keys as a quarter
    of the slots, 2 in 10,000 are given up, with half of them 8 in 1,000; ``forgotten`` counts them. A key that
    never went is taken for one that did once in 268 million times (8 / 2**31).
    """

    __slots__ = ("_shift", "_table", "forgotten")

    def __init__(self, slots: int) -> None:
        bits = max(-(-slots // _WAYS) - 1, 0).bit_length()
        self._shift = 64 - bits
        self._table = array("I", bytes(4 * _WAYS << bits))
        self.forgotten = 0

    def add(self, key: Hashable, *, by_reset: bool) -> None:
        """Remember a key; one that is there already gets its new reason."""
        start, entry = self._place(key)
        table = self._table
        bucket = table[start : start + _WAYS]
        if entry in bucket or entry + 1 in bucket:
            place = bucket.index(entry) if entry in bucket else bucket.index(entry + 1)
            table[start + place] = entry + by_reset
            return
        if bucket[-1]:
            self.forgotten += 1
        table[start] = entry + by_reset
        table[start + 1 : start + _WAYS] = bucket[:-1]

    def by_reset(self, key: Hashable) -> bool | None:
        """Whether a reset took the key (else an eviction did); ``None`` where nothing is known of it."""
        start, entry = self._place(key)
        bucket = self._table[start : start + _WAYS]
        if entry in bucket:
            return False
        return True if entry + 1 in bucket else None

    def _place(self, key: Hashable) -> tuple[int, int]:
        mixed = hash(key) * _ODD & _WORD
        return (mixed >> self._shift) * _WAYS, ((mixed & _FINGERPRINT) or 1) << 1
