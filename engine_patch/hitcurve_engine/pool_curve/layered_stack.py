"""One LRU list for pools of several sizes at once.

The order of an LRU list does not depend on its size (Mattson et al. 1970): a larger pool holds what a smaller one
holds, and more. So the list is cut into layers at the sizes. A key that is used goes to the front, and from each
layer that it passed the oldest key falls into the next. That is a few moves per use, without a distance counted.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise

__all__ = ["LayeredStack"]


class LayeredStack:
    """Keys by last use. ``sizes`` are the pools' sizes in keys, not falling; the last one is all that is kept."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._room = [sizes[0], *(larger - smaller for smaller, larger in pairwise(sizes))]
        self._layers: list[OrderedDict[Hashable, None]] = [OrderedDict() for _ in sizes]
        self._layer_of: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._layer_of)

    def smallest_with(self, key: Hashable) -> int:
        """Place in ``sizes`` of the smallest pool that holds the key; ``len(sizes)`` where none does."""
        return self._layer_of.get(key, len(self._layers))

    def use(self, keys: Iterable[Hashable]) -> None:
        """Each key becomes the most recent one, in this order."""
        layers, layer_of, room = self._layers, self._layer_of, self._room
        first, beyond = layers[0], len(layers)
        for key in keys:
            was = layer_of.get(key, beyond)
            if was == 0:
                first.move_to_end(key)
                continue
            if was < beyond:
                del layers[was][key]
            first[key] = None
            layer_of[key] = 0
            for place in range(was):
                if len(layers[place]) <= room[place]:
                    break
                fallen, _ = layers[place].popitem(last=False)
                if place + 1 < beyond:
                    layers[place + 1][fallen] = None
                    layer_of[fallen] = place + 1
                else:
                    del layer_of[fallen]

    def clear(self) -> None:
        """Forget all keys."""
        for layer in self._layers:
            layer.clear()
        self._layer_of.clear()
