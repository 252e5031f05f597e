"""vLLM's cache manager as rules that serve whole requests."""

from collections.abc import Sequence
from typing import Any

from hitcurve_simulator.simulate.cache_rules import Started
from hitcurve_simulator.vllm import CacheManager, Request, RequestState

__all__ = ["VllmRequests"]


class VllmRequests:
    """Without ``outputs``, only the full prompt blocks of a request that brings hash ids take room."""

    def __init__(self, manager: CacheManager, outputs: bool) -> None:
        self._manager = manager
        self._outputs = outputs
        self._states: dict[str, RequestState] = {}

    @property
    def evicted_blocks(self) -> int:
        return self._manager.pool.evictions

    def reason_to_reject(self, request: Request, output_tokens: int) -> str | None:
        room = self._prompt_room(request) + max(output_tokens - 1, 0)
        needed, usable = self._manager.blocks_for(room), self._manager.usable_blocks
        return None if usable is None or needed <= usable else f"needs {needed} blocks, pool has {usable}"

    def start(self, request: Request, output_tokens: int) -> Started | None:
        manager, waiting = self._manager, self._states.get(request.request_id)
        state = waiting or manager.track(request)
        self._states[request.request_id] = state
        prompt = self._prompt_room(request)
        found = manager.lookup(state)
        if not manager.admit(state, prompt - len(found) * manager.block_size, found, max(output_tokens - 1, 0)):
            return None
        state.computed_tokens = prompt
        return Started(state.hit_tokens)

    def finish(self, request_id: str, output_token_ids: Sequence[int]) -> None:
        state = self._states.pop(request_id)
        if output_token_ids:
            self._manager.append_output(state, output_token_ids)
            if len(output_token_ids) > 1:
                self._manager.allocate(state, len(output_token_ids) - 1)
        self._manager.finish(state)

    def details(self) -> dict[str, Any]:
        counters = self._manager.statistics
        unit = self._manager.rules.statistics_unit
        return {"engine_counters": {"unit": unit, "queries": counters.queries, "hits": counters.hits}}

    def _prompt_room(self, request: Request) -> int:
        """Tokens of the prompt that take room."""
        if self._outputs or request.prompt_token_ids is not None:
            return request.prompt_tokens
        return request.prompt_tokens // self._manager.block_size * self._manager.block_size
