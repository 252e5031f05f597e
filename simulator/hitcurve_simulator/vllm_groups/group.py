"""The blocks that requests hold in one group, null blocks where attention needs nothing any more.

Follows ``SingleTypeKVCacheManager`` of ``vllm/v1/core/single_type_kv_cache_manager.py``, 0.24 to 0.32.
"""

from collections.abc import Hashable, Sequence

from hitcurve_simulator.vllm import NULL_BLOCK, BlockPool
from hitcurve_simulator.vllm_groups.attention import Attention

__all__ = ["Group"]


class Group:
    """Requests are known by their ids."""

    def __init__(
        self, number: int, attention: Attention, pool: BlockPool, keys_per_block: int, hits_every: int
    ) -> None:
        """``keys_per_block``: keys of a prompt are of smaller blocks where another group has those.
        ``hits_every``: tokens from one possible end of a hit to the next."""
        self.number = number
        self.attention = attention
        self.unit = hits_every // attention.block_size
        """Blocks from one possible end of a hit to the next."""
        self.blocks: dict[str, list[int]] = {}
        self._pool = pool
        self._keys_per_block = keys_per_block
        self._registered: dict[str, int] = {}

    def key(self, keys: Sequence[Hashable], block: int) -> Hashable:
        """What the n-th block of a prompt is registered under: the last key in it, in this group."""
        return (self.number, keys[(block + 1) * self._keys_per_block - 1])

    def blocks_wanted(
        self, request_id: str, tokens: int, found: Sequence[int], computed: int, at_most: int | None = None
    ) -> int:
        """Free blocks that room for ``tokens`` takes: new ones, and those found that nobody holds.

        ``at_most``: blocks that a request holds at once, however long it is.
        """
        needed = -(-tokens // self.attention.block_size)
        needed = needed if at_most is None else min(needed, at_most)
        held = self.blocks.get(request_id)
        if held is not None:
            return max(needed - len(held), 0)
        skipped = self._skipped_blocks(computed)
        idle = [block for block in found[skipped:] if block != NULL_BLOCK]
        return max(needed - max(skipped, len(found)), 0) + self._pool.idle_among(idle)

    def hold_found(self, request_id: str, found: Sequence[int], computed: int) -> None:
        """Begin a request with the blocks of a lookup; ``computed`` tokens are there, found or brought."""
        skipped = self._skipped_blocks(computed)
        kept = list(found[skipped:])
        self._pool.touch([block for block in kept if block != NULL_BLOCK])
        self.blocks[request_id] = [NULL_BLOCK] * skipped + kept
        self._registered[request_id] = len(self.blocks[request_id])

    def take_up_to(self, request_id: str, tokens: int) -> None:
        """New blocks until the request has room for ``tokens``."""
        held = self.blocks[request_id]
        missing = -(-tokens // self.attention.block_size) - len(held)
        if missing > 0:
            held.extend(self._pool.take_new(missing))

    def let_go_skipped(self, request_id: str, computed: int) -> None:
        """Give back what the next token does not attend to, the latest block first."""
        held = self.blocks.get(request_id, [])
        freed = []
        for place in reversed(range(min(self._skipped_blocks(computed), len(held)))):
            if held[place] == NULL_BLOCK:
                break
            freed.append(held[place])
            held[place] = NULL_BLOCK
        self._pool.free(freed)

    def register(self, request_id: str, keys: Sequence[Hashable], tokens: int, drop_last: bool) -> None:
        """Make the full blocks of the first ``tokens`` hittable, those that a hit can use."""
        held, first = self.blocks[request_id], self._registered[request_id]
        end = tokens // self.attention.block_size
        useful = [
            place
            for place in range(first, end)
            if held[place] != NULL_BLOCK and self.attention.worth_caching(place, self.unit, drop_last)
        ]
        self._pool.cache([held[place] for place in useful], [self.key(keys, place) for place in useful])
        self._registered[request_id] = max(first, end)

    def let_go(self, request_id: str) -> None:
        """Give all blocks back, tail first."""
        held = self.blocks.pop(request_id, [])
        self._registered.pop(request_id, None)
        self._pool.free([block for block in reversed(held) if block != NULL_BLOCK])

    def _skipped_blocks(self, computed: int) -> int:
        return self.attention.skipped_tokens(computed) // self.attention.block_size
