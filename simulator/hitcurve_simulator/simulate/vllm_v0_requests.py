"""vLLM V0's block manager as rules that serve whole requests."""

from collections.abc import Sequence
from typing import Any

from hitcurve_simulator.simulate.cache_rules import Started
from hitcurve_simulator.vllm import Request, RequestState
from hitcurve_simulator.vllm_v0 import BlockManager

__all__ = ["VllmV0Requests"]


class VllmV0Requests:
    """Each start and each end of a request is a step of its own. Without ``outputs``, only the full prompt blocks
    of a request that brings hash ids take room."""

    def __init__(self, manager: BlockManager, outputs: bool) -> None:
        self._manager = manager
        self._outputs = outputs
        self._states: dict[str, RequestState] = {}
        self._now = 0.0
        self._salted = 0

    @property
    def evicted_blocks(self) -> int:
        return self._manager.pool.evictions

    def reason_to_reject(self, request: Request, output_tokens: int) -> str | None:
        pool, size = self._manager.pool.num_blocks, self._manager.block_size
        needed = -(-(self._prompt_room(request) + max(output_tokens - 1, 0)) // size)
        return None if pool is None or needed <= pool else f"needs {needed} blocks, pool has {pool}"

    def start(self, request: Request, output_tokens: int) -> Started | None:
        manager = self._manager
        state = self._states.get(request.request_id) or manager.track(request)
        self._states[request.request_id] = state
        if not manager.admit(state, self._prompt_room(request), max(output_tokens - 1, 0)):
            return None
        self._salted += request.cache_salt is not None
        self._step(state)
        return Started(state.hit_tokens)

    def finish(self, request_id: str, output_token_ids: Sequence[int]) -> None:
        state = self._states.pop(request_id)
        if output_token_ids:
            self._manager.append(state, output_token_ids, len(output_token_ids) - 1)
        self._step(state)
        self._manager.finish(state)

    def details(self) -> dict[str, Any]:
        counters = {"unit": "blocks", "queries": self._manager.query_blocks, "hits": self._manager.hit_blocks}
        return {"engine_counters": counters, "requests_whose_salt_is_ignored": self._salted}

    def _step(self, state: RequestState) -> None:
        self._now += 1.0
        self._manager.access(state, self._now)
        self._manager.mark_computed()

    def _prompt_room(self, request: Request) -> int:
        if self._outputs or request.prompt_token_ids is not None:
            return request.prompt_tokens
        return request.prompt_tokens // self._manager.block_size * self._manager.block_size
