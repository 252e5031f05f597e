"""Whether a key was ever cached, from a sample that gets thinner as more keys come: a cache that never evicts."""

from collections.abc import Hashable, Iterable
from typing import Final

__all__ = ["LAST_PLACE", "PLACES", "SeenSample", "place_of"]

PLACES: Final = 1 << 30
"""Keys are sampled by their place among so many: those below a threshold, so the same ones every time."""
LAST_PLACE: Final = PLACES - 1


def place_of(key: Hashable) -> int:
    """The place of a key, evenly spread as far as its hash is."""
    return hash(key) & LAST_PLACE


class SeenSample:
    """At most ``most_keys`` of the keys at a place below ``threshold``, which is halved when they become more."""

    def __init__(self, most_keys: int) -> None:
        self.threshold = PLACES
        self._most_keys = most_keys
        self._keys: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def add(self, keys: Iterable[Hashable]) -> None:
        """Enter those whose place is below the threshold."""
        threshold = self.threshold
        self._keys.update([key for key in keys if hash(key) & LAST_PLACE < threshold])
        while len(self._keys) > self._most_keys:
            self.threshold //= 2
            self._keys = {kept for kept in self._keys if place_of(kept) < self.threshold}

    def clear(self) -> None:
        """Begin anew: of what comes next every key is in the sample."""
        self.threshold = PLACES
        self._keys.clear()
