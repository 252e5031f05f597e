"""vLLM's KV cache manager for several groups, or for one with a sliding window.

Follows ``vllm/v1/core/kv_cache_manager.py`` and ``kv_cache_coordinator.py``, 0.24 to 0.32.
"""

from collections.abc import Sequence
from math import gcd, lcm

from hitcurve_simulator.vllm import (
    BlockHasher,
    BlockPool,
    InterningHasher,
    LookupStatistics,
    Request,
    RequestState,
    VllmRules,
)
from hitcurve_simulator.vllm.block_keys import extend_keys
from hitcurve_simulator.vllm_groups.attention import Attention, FullAttention
from hitcurve_simulator.vllm_groups.group import Group
from hitcurve_simulator.vllm_groups.longest_common_hit import Hit, kinds_of, longest_common_hit

__all__ = ["GroupedCacheManager"]

_OLDEST = (0, 24)
_MARGIN_UP_TO_THE_LAST_KEY = (0, 32)


class GroupedCacheManager:
    """Lookup, allocation and freeing for requests, over one block pool that all groups share.

    One request: ``track``, ``lookup``, ``admit``, ``allocate`` (for each further chunk or decoded token, after
    ``append_output``), ``free``. The caller advances ``RequestState.computed_tokens``.
    """

    def __init__(
        self,
        num_blocks: int | None,
        groups: Sequence[Attention],
        rules: VllmRules | None = None,
        hasher: BlockHasher | None = None,
        drops_last_hit_block: bool = False,
        in_flight_tokens: int | None = None,
    ) -> None:
        """``num_blocks`` counts the reserved null block; None: no limit. ``in_flight_tokens``: what a step may
        compute, which bounds the blocks that an admission demands for a window; None: no bound.

        Raises ValueError for versions and combinations of groups whose rules are not known.
        """
        self.rules = rules or VllmRules()
        sizes = [attention.block_size for attention in groups]
        _check(self.rules, groups, drops_last_hit_block)
        self.block_size = lcm(*sizes)
        """Hits are multiples of this many tokens: the minimum reusable prefix."""
        self.statistics = LookupStatistics()
        self.pool = BlockPool(num_blocks, self.rules.free_rule)
        self.drops_last_hit_block = drops_last_hit_block
        self.key_size = gcd(*sizes)
        """A prompt has a key for every so many tokens."""
        self._hasher = hasher or InterningHasher()
        self._in_flight_tokens = in_flight_tokens
        self.groups = [
            Group(number, attention, self.pool, attention.block_size // self.key_size, self.block_size)
            for number, attention in enumerate(groups)
        ]
        self._kinds = kinds_of(self.groups)

    @property
    def usable_blocks(self) -> int | None:
        """Blocks that requests can hold; None where there is no limit."""
        return None if self.pool.num_blocks is None else self.pool.num_blocks - 1

    def most_blocks(self, tokens: int) -> int:
        """Blocks that a sequence of so many tokens holds at most at one time, in all groups together."""
        needed = 0
        for group in self.groups:
            blocks, bound = -(-tokens // group.attention.block_size), self._bound(group)
            needed += blocks if bound is None else min(blocks, bound)
        return needed

    def track(self, request: Request) -> RequestState:
        """State of a new request, with the keys of its prompt."""
        state = RequestState(request)
        extend_keys(self._hasher, state, self.key_size, self.rules.number)
        return state

    def blocks_of(self, request_id: str) -> list[list[int]]:
        """Blocks that the request holds in each group, null blocks for what its attention needs no more."""
        return [list(group.blocks.get(request_id, ())) for group in self.groups]

    def lookup(self, state: RequestState) -> Hit:
        """The longest prefix that all groups can reuse, at most all tokens but the last one. Holds nothing."""
        if state.request.skip_reading_prefix_cache:
            return Hit(0, tuple([] for _ in self.groups))
        most = state.num_tokens - 1
        last_key = len(state.keys) * self.key_size
        margin_to = last_key if self.rules.number >= _MARGIN_UP_TO_THE_LAST_KEY else most
        hit = longest_common_hit(self._kinds, self.pool, state.keys, most, margin_to, self.drops_last_hit_block)
        if not self.rules.counted_at_admission:
            self._count(state, hit)
        return hit

    def admit(
        self, state: RequestState, new_tokens: int, hit: Hit, lookahead_tokens: int = 0, external_tokens: int = 0
    ) -> bool:
        """First allocation after a lookup: hold what was found, take blocks for what a connector brings and for
        ``new_tokens`` more, count. False, with nothing changed, where the whole prompt does not fit."""
        request_id, computed = state.request_id, hit.tokens + external_tokens
        room = computed + new_tokens + lookahead_tokens
        if not self._fits(request_id, hit, computed, state.num_tokens, whole=True):
            return False
        if not self._fits(request_id, hit, computed, room):
            return False
        # First all that was found, so that making room in one group takes nothing found from another.
        for group, found in zip(self.groups, hit.blocks, strict=True):
            group.hold_found(request_id, found, computed)
        if external_tokens:
            for group in self.groups:
                group.take_up_to(request_id, computed)
        self._take(state, room, computed + new_tokens)
        self.statistics.record_external(state, hit.tokens, external_tokens)
        if state.request.skip_reading_prefix_cache:
            self.statistics.record_skipped(state)
            return True
        if state.hit_tokens is None:
            state.hit_tokens = hit.tokens
        if self.rules.counted_at_admission:
            self._count(state, hit)
        return True

    def allocate(self, state: RequestState, new_tokens: int, lookahead_tokens: int = 0) -> bool:
        """Room for ``new_tokens`` more of an admitted request, and the blocks they fill registered at once.

        False where blocks are missing; blocks that its window left behind are given back even then.
        """
        computed = state.computed_tokens + new_tokens
        room = computed + lookahead_tokens
        for group in self.groups:
            group.let_go_skipped(state.request_id, state.computed_tokens)
        if not self._fits(state.request_id, Hit(0, tuple([] for _ in self.groups)), state.computed_tokens, room):
            return False
        self._take(state, room, computed)
        return True

    def append_output(self, state: RequestState, token_ids: Sequence[int]) -> None:
        """Add generated tokens to the sequence."""
        state.output_token_ids.extend(token_ids)
        state.num_tokens += len(token_ids)
        extend_keys(self._hasher, state, self.key_size, self.rules.number)

    def preempt(self, state: RequestState) -> None:
        """Free a running request so that it can be admitted anew."""
        self.free(state)
        state.computed_tokens = 0
        state.preemptions += 1
        state.status = "preempted"

    def free(self, state: RequestState) -> None:
        """Let go of all blocks, group after group."""
        for group in self.groups:
            group.let_go(state.request_id)

    def reset_prefix_cache(self) -> bool:
        """Drop every hash; refused (False) while any request holds blocks."""
        return self.pool.reset_prefix_cache()

    def _fits(self, request_id: str, hit: Hit, computed: int, tokens: int, whole: bool = False) -> bool:
        """Whether all groups together find room for ``tokens``; ``whole``: as an admission asks, for which a
        window counts with the most it ever holds."""
        wanted = 0
        for group, found in zip(self.groups, hit.blocks, strict=True):
            wanted += group.blocks_wanted(
                request_id, tokens, found, computed, self._bound(group) if whole else None
            )
        return self.pool.free_queue.has(wanted)

    def _bound(self, group: Group) -> int | None:
        tokens = self._in_flight_tokens
        return None if tokens is None else group.attention.most_blocks(tokens)

    def _take(self, state: RequestState, room: int, computed: int) -> None:
        for group in self.groups:
            group.take_up_to(state.request_id, room)
        # Drafts that may be rejected are not cached.
        tokens = min(computed, state.num_tokens)
        for group in self.groups:
            group.register(state.request_id, state.keys, self._cacheable(group, tokens), self.drops_last_hit_block)

    def _cacheable(self, group: Group, tokens: int) -> int:
        """Tokens that a hit may end at, and the block behind them that EAGLE gives up."""
        if len(self.groups) == 1:
            return tokens
        aligned = tokens // self.block_size * self.block_size
        if self.drops_last_hit_block and aligned:
            return min(tokens, aligned + group.attention.block_size)
        return aligned

    def _count(self, state: RequestState, hit: Hit) -> None:
        self.statistics.record_lookup(self.rules, state, hit.tokens, 1, 0)


def _check(rules: VllmRules, groups: Sequence[Attention], drops_last: bool) -> None:
    if rules.number < _OLDEST:
        raise ValueError(f"no rules for groups of vLLM {rules.version}: they start with 0.24")
    if not groups:
        raise ValueError("there must be a group")
    sizes = {attention.block_size for attention in groups}
    if drops_last and len(sizes) > 1:
        raise ValueError("EAGLE with groups of different block sizes is not modelled")
    if len({attention for attention in groups if isinstance(attention, FullAttention)}) > 1:
        raise ValueError("full attention with different block sizes is not modelled")
