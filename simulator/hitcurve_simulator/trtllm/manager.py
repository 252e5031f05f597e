"""TensorRT-LLM's block reuse for whole requests (``kvCacheManager.cpp``, full blocks only, no host memory)."""

from collections.abc import Hashable, Sequence

from hitcurve_simulator.trtllm.block_tree import BlockTree
from hitcurve_simulator.trtllm.retention import Retention
from hitcurve_simulator.vllm import CacheObserver, InterningHasher, Request, RequestState
from hitcurve_simulator.vllm.block_keys import extend_keys

__all__ = ["BlockReuse"]

# Extra keys in the form of vLLM's newest version: what they keep apart is the same.
_VERSION = (1 << 20,)
_NOTHING_ASKED = Retention()


class BlockReuse:
    """One request: ``track``, ``admit``, ``append_output``, ``finish``. The caller gives the time in seconds."""

    def __init__(self, num_blocks: int | None, block_size: int, observer: CacheObserver | None = None) -> None:
        self.block_size = block_size
        self.observer = observer
        self.tree = BlockTree(num_blocks, self._report_eviction)
        self._hasher = InterningHasher()
        self._retentions: dict[str, Retention] = {}
        self._allocating = ""

    def track(self, request: Request, retention: Retention = _NOTHING_ASKED) -> RequestState:
        """State of a new request."""
        state = RequestState(request)
        self._retentions[request.request_id] = retention
        extend_keys(self._hasher, state, self.block_size, _VERSION)
        return state

    def admit(self, state: RequestState, tokens: int, room: int = 0, now: float = 0.0) -> bool:
        """Hold the cached full blocks that ``tokens`` begin with, at most all tokens but the last, and take blocks
        for the rest and for the room behind it.

        The blocks of the prompt are in the tree at once. False, with nothing changed, where blocks are missing.
        """
        tree, retention = self.tree, self._retentions[state.request_id]
        tree.refresh(now)
        may_read = not state.request.skip_reading_prefix_cache
        most = (state.num_tokens - 1) // self.block_size if may_read else 0
        found = tree.longest_prefix(state.keys[:most])
        hit_tokens = len(found) * self.block_size
        if self.observer is not None and may_read:
            self.observer.looked_up(state, hit_tokens)
        needed = -(-(tokens + room) // self.block_size)
        if tree.num_free is not None and needed - len(found) + tree.idle_among(found) > tree.num_free:
            return False
        self._allocating = state.request_id
        for index in range(needed):
            wanted = retention.of_block(index, self.block_size, state.prompt_tokens)
            if index < len(found):
                tree.claim(found[index], *wanted)
                state.blocks.append(found[index])
            else:
                state.blocks.append(tree.take(*wanted))
        state.computed_tokens = tokens
        state.status = "running"
        if may_read and state.hit_tokens is None:
            state.hit_tokens = hit_tokens
        if self.observer is not None:
            self.observer.scheduled(state, hit_tokens)
        self._store(state)
        return True

    def append_output(self, state: RequestState, token_ids: Sequence[int]) -> None:
        """Add generated tokens; all but the last of them are computed, in the room of ``admit``."""
        state.output_token_ids.extend(token_ids)
        state.num_tokens += len(token_ids)
        extend_keys(self._hasher, state, self.block_size, _VERSION)
        state.computed_tokens = state.num_tokens - 1

    def finish(self, state: RequestState, now: float = 0.0) -> None:
        """End a request: its full blocks stay in the tree, and are let go from the end of the sequence."""
        self._store(state)
        for block in reversed(state.blocks):
            self.tree.release(block, now)
        state.blocks = []
        state.status = "finished"
        del self._retentions[state.request_id]
        if self.observer is not None:
            self.observer.finished(state)

    def _store(self, state: RequestState) -> None:
        for index in range(state.cached_blocks, state.computed_tokens // self.block_size):
            parent = state.keys[index - 1] if index else None
            if self.tree.store(state.blocks[index], state.keys[index], parent) and self.observer is not None:
                self.observer.stored(state, index, index + 1)
            state.cached_blocks = index + 1

    def _report_eviction(self, key: Hashable) -> None:
        if self.observer is not None:
            self.observer.evicted(key, True, self._allocating)
