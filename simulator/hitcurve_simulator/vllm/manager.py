"""vLLM's KV cache manager for one full-attention group (``vllm/v1/core/kv_cache_manager.py``, 0.8.5 to 0.32)."""

from collections.abc import Hashable, Sequence

from hitcurve_simulator.vllm.block_keys import BlockHasher, InterningHasher, extend_keys
from hitcurve_simulator.vllm.block_pool import BlockPool
from hitcurve_simulator.vllm.observer import CacheObserver
from hitcurve_simulator.vllm.request import Request, RequestState
from hitcurve_simulator.vllm.statistics import LookupStatistics
from hitcurve_simulator.vllm.versions import VllmRules

__all__ = ["CacheManager"]


class CacheManager:
    """Lookup, allocation and freeing for requests, over one block pool.

    One request: ``track``, ``lookup``, ``allocate`` (again for each chunk or decoded token, after
    ``append_output``), ``free``.
    """

    def __init__(
        self,
        num_blocks: int | None,
        block_size: int,
        rules: VllmRules | None = None,
        hasher: BlockHasher | None = None,
        observer: CacheObserver | None = None,
        enable_caching: bool = True,
        drops_last_hit_block: bool = False,
    ) -> None:
        """``num_blocks`` counts the reserved null block, as ``--num-gpu-blocks-override`` does; None: no limit.
        ``drops_last_hit_block``: EAGLE and MTP compute the last block that was found again."""
        self.rules = rules or VllmRules()
        self.block_size = block_size
        self.enable_caching = enable_caching
        self.drops_last_hit_block = drops_last_hit_block
        self.statistics = LookupStatistics()
        self.observer = observer
        self._hasher = hasher or InterningHasher()
        self._allocating = ""
        self.pool = BlockPool(num_blocks, self.rules.free_rule, self._report_eviction if observer else None)

    @property
    def usable_blocks(self) -> int | None:
        """Blocks that requests can hold: all but the null block; None where there is no limit."""
        return None if self.pool.num_blocks is None else self.pool.num_blocks - 1

    @property
    def usage(self) -> float:
        """Share of the pool that requests hold, 0 to 1, as the version computes it; 0 without a limit."""
        if self.pool.num_blocks is None:
            return 0.0
        if self.rules.usage_without_null_block:
            return self.pool.num_used / (self.pool.num_blocks - 1)
        return (self.pool.num_used + 1) / self.pool.num_blocks

    @property
    def hasher(self) -> BlockHasher:
        """What gives blocks their keys."""
        return self._hasher

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-tokens // self.block_size)

    def track(self, request: Request) -> RequestState:
        """State of a new request, with the keys of its full prompt blocks."""
        state = RequestState(request)
        if self.enable_caching:
            extend_keys(self._hasher, state, self.block_size, self.rules.number)
        return state

    def may_read(self, state: RequestState) -> bool:
        """Whether the request looks the cache up."""
        return self.enable_caching and not state.request.skip_reading_prefix_cache

    def lookup(self, state: RequestState) -> list[int]:
        """Blocks of the longest cached prefix, at most all tokens but the last one. Holds nothing.

        The last token is always computed, since its logits are needed. Counts the attempt where the
        version counts attempts.
        """
        if not self.rules.hashed_when_appended:
            state.hashed_blocks = state.hashed_blocks or len(state.keys)
        if not self.may_read(state):
            if self.enable_caching and not self.rules.counted_at_admission:
                self.statistics.record_skipped_attempt(self.rules)
            return []
        found = self.pool.longest_prefix(state.keys, self._most_hit_blocks(state))
        if self.drops_last_hit_block and found:
            found.pop()
        if not self.rules.counted_at_admission:
            self.statistics.record_lookup(
                self.rules, state, len(found), self.block_size, self._most_hit_blocks(state)
            )
        if self.observer is not None:
            self.observer.looked_up(state, len(found) * self.block_size)
        return found

    def admit(
        self,
        state: RequestState,
        new_tokens: int,
        found: Sequence[int] = (),
        lookahead_tokens: int = 0,
        external_tokens: int = 0,
    ) -> bool:
        """First allocation after a lookup: hold the blocks found, take blocks for ``external_tokens`` that a
        connector brings and for ``new_tokens`` more, count.

        Returns False, and changes nothing, where the blocks are not there: the whole prompt must fit where
        the version demands it.
        """
        whole = state.num_tokens if self.rules.reserve_whole_prompt else 0
        if not self.allocate(state, external_tokens + new_tokens, found, lookahead_tokens, whole):
            return False
        self.statistics.record_external(state, len(found) * self.block_size, external_tokens)
        hit_tokens = len(found) * self.block_size
        if not self.may_read(state):
            self.statistics.record_skipped(state)
        else:
            if state.hit_tokens is None:
                state.hit_tokens = hit_tokens
            if self.rules.counted_at_admission:
                self.statistics.record_lookup(
                    self.rules, state, len(found), self.block_size, self._most_hit_blocks(state)
                )
        if self.observer is not None:
            self.observer.scheduled(state, hit_tokens)
        return True

    def allocate(
        self,
        state: RequestState,
        new_tokens: int,
        found: Sequence[int] = (),
        lookahead_tokens: int = 0,
        must_fit_tokens: int = 0,
    ) -> bool:
        """Room for ``new_tokens`` more, and the blocks they fill registered at once.

        ``found`` are the blocks of a lookup, ``lookahead_tokens`` get room and are not registered,
        ``must_fit_tokens`` must have room and get none. False, with nothing changed, where blocks are missing.
        The caller advances ``state.computed_tokens``.
        """
        computed = state.computed_tokens + len(found) * self.block_size
        held = len(state.blocks) + len(found)
        missing = max(self.blocks_for(computed + new_tokens + lookahead_tokens) - held, 0)
        demanded = max(missing, self.blocks_for(must_fit_tokens) - held)
        idle = self.pool.idle_among(found) if found else 0
        if not self.pool.free_queue.has(demanded + idle):
            return False
        if found:
            self.pool.touch(found)
            state.blocks.extend(found)
            state.cached_blocks = len(found)
        if missing:
            self._allocating = state.request.request_id
            state.blocks.extend(self.pool.take_new(missing))
        self._cache_full_blocks(state, min(computed + new_tokens, state.num_tokens))
        return True

    def append_output(self, state: RequestState, token_ids: Sequence[int]) -> None:
        """Add generated tokens to the sequence; their blocks are registered when they are computed."""
        state.output_token_ids.extend(token_ids)
        state.num_tokens += len(token_ids)
        if self.enable_caching:
            extend_keys(self._hasher, state, self.block_size, self.rules.number)

    def preempt(self, state: RequestState) -> None:
        """Free a running request so that it can be admitted anew; everything is computed again or found."""
        self.free(state)
        state.computed_tokens = 0
        state.preemptions += 1
        state.prefilling = True
        state.status = "preempted"
        if self.observer is not None:
            self.observer.preempted(state)

    def finish(self, state: RequestState) -> None:
        """Free a request for good."""
        self.free(state)
        state.status = "finished"
        if self.observer is not None:
            self.observer.finished(state)

    def free(self, state: RequestState) -> None:
        """Let go of all blocks of the request, tail first, so that a chain is evicted from its end."""
        blocks = state.blocks
        state.blocks = []
        state.cached_blocks = 0
        blocks.reverse()
        self.pool.free(blocks)

    def reset_prefix_cache(self) -> bool:
        """Drop every hash; refused (False) while any request holds blocks."""
        done = self.pool.reset_prefix_cache()
        if self.observer is not None:
            self.observer.reset(done)
        return done

    def _most_hit_blocks(self, state: RequestState) -> int:
        """Blocks that a lookup asks for: all full ones, without the last one where it ends the sequence."""
        most = (state.num_tokens - 1) // self.block_size
        return most if self.rules.hashed_when_appended else min(most, state.hashed_blocks)

    def _cache_full_blocks(self, state: RequestState, tokens: int) -> None:
        first, end = state.cached_blocks, tokens // self.block_size
        if not self.enable_caching or first >= end:
            return
        self.pool.cache(state.blocks[first:end], state.keys[first:end])
        state.cached_blocks = end
        state.hashed_blocks = max(state.hashed_blocks, end)
        if self.observer is not None:
            self.observer.stored(state, first, end)

    def _report_eviction(self, block: int, key: Hashable, gone: bool) -> None:
        if self.observer is not None:
            self.observer.evicted(key, gone, self._allocating)
