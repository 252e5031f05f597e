"""vLLM V0's block manager (``vllm/core/block_manager.py``, ``core/block/block_table.py``, 0.8.5).

Equal content is one block: a request shares what is cached when it is admitted, and again whenever a block of its
own becomes full. Salts do not exist in V0; adapters keep apart.
"""

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import replace

from hitcurve_simulator.vllm import CacheObserver, InterningHasher, Request, RequestState
from hitcurve_simulator.vllm.block_keys import extend_keys
from hitcurve_simulator.vllm_v0.block_pool import BlockPool

__all__ = ["BlockManager"]

VERSION = (0, 8, 5)
WATERMARK = 0.01
"""Share of the pool that an admission leaves free."""


class BlockManager:
    """One request: ``track``, ``admit``, ``append`` for each decoded token, ``finish``.

    ``mark_computed`` ends a scheduler step; ``access`` notes that a request ran in it.
    """

    def __init__(
        self,
        num_blocks: int | None,
        block_size: int,
        watermark: float = WATERMARK,
        observer: CacheObserver | None = None,
    ) -> None:
        self.block_size = block_size
        self.observer = observer
        self.query_blocks = 0
        self.hit_blocks = 0
        """V0's own counters: full blocks of admitted requests, and those that were there, computed or not."""
        self.pool = BlockPool(num_blocks, self._report_eviction)
        self._reserve = 0 if num_blocks is None else int(watermark * num_blocks)
        self._hasher = InterningHasher()
        self._accessed: dict[str, float] = {}
        self._allocating = ""

    def track(self, request: Request) -> RequestState:
        """State of a new request."""
        state = RequestState(request)
        self._extend_keys(state)
        return state

    def cached_tokens(self, state: RequestState) -> int:
        """Tokens of the computed blocks that the sequence begins with, at most all tokens but the last one.

        Found by bisection, as V0 does: where a block is cached behind one that is not, the answer may be any of
        the borders.
        """
        blocks = bisect_left(state.keys, True, key=lambda key: not self.pool.is_computed(key))
        return min(blocks * self.block_size, state.num_tokens - 1)

    def fits(self, tokens: int, room: int = 0) -> bool:
        """Whether an admission may take its blocks, not counting on any hit."""
        free = self.pool.num_free
        return free is None or free - -(-(tokens + room) // self.block_size) >= self._reserve

    def admit(self, state: RequestState, tokens: int | None = None, room: int = 0) -> bool:
        """Look up, then hold blocks for ``tokens`` (default: all known ones) and empty room behind them.

        False, with nothing changed, where they do not fit.
        """
        tokens = state.num_tokens if tokens is None else tokens
        hit_tokens = 0 if state.request.skip_reading_prefix_cache else self.cached_tokens(state)
        if self.observer is not None and not state.request.skip_reading_prefix_cache:
            self.observer.looked_up(state, hit_tokens)
        if not self.fits(tokens, room):
            return False
        self._allocating = state.request_id
        full = tokens // self.block_size
        stored = [index for index in range(full) if not self._hold(state, state.keys[index])]
        state.blocks.extend(self.pool.take() for _ in range(-(-(tokens + room) // self.block_size) - full))
        state.cached_blocks = full
        state.computed_tokens = tokens
        state.status = "running"
        if state.hit_tokens is None and not state.request.skip_reading_prefix_cache:
            state.hit_tokens = hit_tokens
        if self.observer is not None:
            self.observer.scheduled(state, hit_tokens)
            self._report_stored(state, stored)
        return True

    def can_append(self, state: RequestState, tokens: int) -> bool:
        """Whether the worst case fits: each block that the tokens touch is a new one."""
        free, size = self.pool.num_free, self.block_size
        first = size - state.computed_tokens % size
        return free is None or 1 + -(-(tokens - first) // size) <= free

    def append(self, state: RequestState, token_ids: Sequence[int], computed: int) -> None:
        """Add generated tokens, and give the next ``computed`` tokens of the sequence their slots."""
        state.output_token_ids.extend(token_ids)
        state.num_tokens += len(token_ids)
        self._extend_keys(state)
        self._allocating = state.request_id
        end = state.computed_tokens + computed
        missing = -(-end // self.block_size) - len(state.blocks)
        state.blocks.extend(self.pool.take() for _ in range(missing))
        stored = []
        for index in range(state.cached_blocks, end // self.block_size):
            own, key = state.blocks[index], state.keys[index]
            state.blocks[index] = self.pool.promote(own, key, (index + 1) * self.block_size)
            if state.blocks[index] == own:
                stored.append(index)
        state.cached_blocks = end // self.block_size
        state.computed_tokens = end
        self._report_stored(state, stored)

    def access(self, state: RequestState, now: float) -> None:
        """The request ran at ``now``; its blocks learn of it when they are freed."""
        self._accessed[state.request_id] = now

    def mark_computed(self) -> None:
        """The step is scheduled: what it filled can be found from now on."""
        self.pool.mark_computed()

    def preempt(self, state: RequestState) -> None:
        """Free a running request so that it is computed anew."""
        self._free(state)
        state.preemptions += 1
        state.status = "preempted"
        if self.observer is not None:
            self.observer.preempted(state)

    def finish(self, state: RequestState) -> None:
        """Free a request for good."""
        self._free(state)
        state.status = "finished"
        if self.observer is not None:
            self.observer.finished(state)

    def reset(self) -> bool:
        """Drop every hash; refused (False) while any request holds blocks."""
        done = self.pool.reset()
        if self.observer is not None:
            self.observer.reset(done)
        return done

    def _hold(self, state: RequestState, key: Hashable) -> bool:
        """Add the block with this key to a request; whether it was there."""
        self.query_blocks += 1
        known = self.pool.cached_block(key)
        if known is not None:
            self.hit_blocks += 1
            self.pool.share(known)
            state.blocks.append(known)
            return True
        end_tokens = (len(state.blocks) + 1) * self.block_size
        state.blocks.append(self.pool.promote(self.pool.take(), key, end_tokens))
        return False

    def _free(self, state: RequestState) -> None:
        blocks, state.blocks = state.blocks, []
        now = self._accessed.pop(state.request_id, None)
        if now is not None:
            self.pool.access(blocks, now)
        for block in blocks:
            self.pool.release(block)
        state.cached_blocks = state.computed_tokens = 0

    def _extend_keys(self, state: RequestState) -> None:
        plain = replace(state.request, cache_salt=None, images=())
        meant, state.request = state.request, plain
        extend_keys(self._hasher, state, self.block_size, VERSION)
        state.request = meant

    def _report_stored(self, state: RequestState, blocks: Sequence[int]) -> None:
        if self.observer is not None:
            for block in blocks:
                self.observer.stored(state, block, block + 1)

    def _report_eviction(self, block: int, key: Hashable) -> None:
        if self.observer is not None:
            self.observer.evicted(key, True, self._allocating)
