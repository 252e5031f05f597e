"""TensorRT-LLM's block reuse as rules that serve whole requests."""

from collections.abc import Sequence
from typing import Any

from hitcurve_simulator.simulate.cache_rules import Started
from hitcurve_simulator.trtllm import BlockReuse
from hitcurve_simulator.vllm import Request, RequestState

__all__ = ["TrtllmRequests"]


class TrtllmRequests:
    """No request asks for a retention. Without ``outputs``, only the full prompt blocks of a request that brings
    hash ids take room."""

    def __init__(self, reuse: BlockReuse, outputs: bool) -> None:
        self._reuse = reuse
        self._outputs = outputs
        self._states: dict[str, RequestState] = {}

    @property
    def evicted_blocks(self) -> int:
        return self._reuse.tree.evictions

    def reason_to_reject(self, request: Request, output_tokens: int) -> str | None:
        pool, size = self._reuse.tree.num_blocks, self._reuse.block_size
        needed = -(-(self._prompt_room(request) + max(output_tokens - 1, 0)) // size)
        return None if pool is None or needed <= pool else f"needs {needed} blocks, pool has {pool}"

    def start(self, request: Request, output_tokens: int) -> Started | None:
        state = self._states.get(request.request_id) or self._reuse.track(request)
        self._states[request.request_id] = state
        if not self._reuse.admit(state, self._prompt_room(request), max(output_tokens - 1, 0)):
            return None
        return Started(state.hit_tokens)

    def finish(self, request_id: str, output_token_ids: Sequence[int]) -> None:
        state = self._states.pop(request_id)
        if output_token_ids:
            self._reuse.append_output(state, output_token_ids)
        self._reuse.finish(state)

    def details(self) -> dict[str, Any]:
        return {"compared_with_the_engine": False}

    def _prompt_room(self, request: Request) -> int:
        if self._outputs or request.prompt_token_ids is not None:
            return request.prompt_tokens
        return request.prompt_tokens // self._reuse.block_size * self._reuse.block_size
