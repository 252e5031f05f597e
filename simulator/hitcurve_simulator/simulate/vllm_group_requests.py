"""vLLM's cache manager for several groups as rules that serve whole requests."""

from collections.abc import Callable, Sequence
from typing import Any

from hitcurve_simulator.simulate.cache_rules import Started
from hitcurve_simulator.vllm import Request, RequestState
from hitcurve_simulator.vllm_groups import GroupedCacheManager

__all__ = ["VllmGroupRequests"]


class VllmGroupRequests:
    """A prompt is computed in chunks, so that a window lets go of its blocks on the way. Without ``outputs``, only
    the full prompt blocks of a request that brings hash ids take room."""

    def __init__(
        self,
        manager: GroupedCacheManager,
        outputs: bool,
        chunk_tokens: int,
        on_computed: Callable[[RequestState], None],
    ) -> None:
        """``on_computed`` is told of each request before it is freed."""
        self.states: dict[str, RequestState] = {}
        """Requests that hold blocks, or wait for them."""
        self._manager = manager
        self._outputs = outputs
        self._chunk = chunk_tokens
        self._on_computed = on_computed

    @property
    def evicted_blocks(self) -> int:
        return self._manager.pool.evictions

    def reason_to_reject(self, request: Request, output_tokens: int) -> str | None:
        usable = self._manager.usable_blocks
        needed = self._manager.most_blocks(self._prompt_room(request) + max(output_tokens - 1, 0))
        return None if usable is None or needed <= usable else f"needs {needed} blocks, pool has {usable}"

    def start(self, request: Request, output_tokens: int) -> Started | None:
        manager = self._manager
        state = self.states.setdefault(request.request_id, manager.track(request))
        hit = manager.lookup(state)
        prompt, output_room = self._prompt_room(request), max(output_tokens - 1, 0)
        ends = [*range(hit.tokens + self._chunk, prompt, self._chunk), prompt]
        if not manager.admit(state, ends[0] - hit.tokens, hit, output_room if len(ends) == 1 else 0):
            return None
        state.computed_tokens = ends[0]
        for end in ends[1:]:
            if not manager.allocate(state, end - state.computed_tokens, output_room if end == prompt else 0):
                manager.preempt(state)
                return None
            state.computed_tokens = end
        return Started(state.hit_tokens)

    def finish(self, request_id: str, output_token_ids: Sequence[int]) -> None:
        state = self.states.pop(request_id)
        if output_token_ids:
            self._manager.append_output(state, output_token_ids)
            # The last token is never computed. Its room is held, so nothing can be refused.
            if len(output_token_ids) > 1:
                self._manager.allocate(state, len(output_token_ids) - 1)
                state.computed_tokens += len(output_token_ids) - 1
        self._on_computed(state)
        self._manager.free(state)

    def details(self) -> dict[str, Any]:
        counters = self._manager.statistics
        return {
            "minimum_reusable_prefix_tokens": self._manager.block_size,
            "engine_counters": {"unit": "tokens", "queries": counters.queries, "hits": counters.hits},
        }

    def _prompt_room(self, request: Request) -> int:
        """Tokens of the prompt that take room."""
        if self._outputs or request.prompt_token_ids is not None:
            return request.prompt_tokens
        return request.prompt_tokens // self._manager.key_size * self._manager.key_size
