"""Per-request LRU over prompt blocks: look up the leading run, refresh the blocks, trim to the pool.

This is what trace studies measure, not what an engine does: a partial last block counts, a prompt can be hit
whole, nothing is held while a request runs, outputs take no room. A request larger than the pool is served and
leaves what fits.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Literal

__all__ = ["BlockLru", "Refresh"]

Refresh = Literal["tail_first", "head_first"]


class BlockLru:
    """An LRU list of ``pool_blocks`` keys (None: no limit)."""

    __slots__ = ("_list", "_pool_blocks", "_refresh", "evictions")

    def __init__(self, pool_blocks: int | None, refresh: Refresh = "tail_first") -> None:
        """``refresh``: order in which the blocks of a request become most recent. Tail first leaves its head
        the most recent, so that a chain goes from its end."""
        self._list: OrderedDict[Hashable, None] = OrderedDict()
        self._pool_blocks = pool_blocks
        self._refresh = refresh
        self.evictions = 0

    def __contains__(self, key: object) -> bool:
        return key in self._list

    def request(self, keys: Sequence[Hashable]) -> tuple[int, list[Hashable]]:
        """Serve one request: length of the leading run that is cached, and the keys evicted, in order."""
        listed = self._list
        hits = next((index for index, key in enumerate(keys) if key not in listed), len(keys))
        for key in reversed(keys) if self._refresh == "tail_first" else keys:
            listed[key] = None
            listed.move_to_end(key)
        if self._pool_blocks is None:
            return hits, []
        surplus = max(len(listed) - self._pool_blocks, 0)
        self.evictions += surplus
        return hits, [listed.popitem(last=False)[0] for _ in range(surplus)]
