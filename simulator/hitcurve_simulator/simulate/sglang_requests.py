"""SGLang's radix cache as rules that serve whole requests."""

from collections.abc import Sequence
from typing import Any

from hitcurve_simulator.sglang import Namespace, RadixCache, RadixRequest
from hitcurve_simulator.simulate.cache_rules import Started
from hitcurve_simulator.vllm import Request

__all__ = ["SglangRequests"]


class SglangRequests:
    """A prompt is computed in one go and checkpointed; the output takes its room at once and is inserted at the
    end. Without ``outputs``, only the full pages of a prompt that brings hash ids take room."""

    def __init__(self, cache: RadixCache, outputs: bool) -> None:
        self._cache = cache
        self._outputs = outputs
        self._states: dict[str, RadixRequest] = {}

    @property
    def evicted_blocks(self) -> int:
        return self._cache.evicted_pages

    def reason_to_reject(self, request: Request, output_tokens: int) -> str | None:
        room = self._prompt_room(request) + max(output_tokens - 1, 0)
        needed, pool = -(-room // self._cache.page_size), self._cache.num_pages
        return None if pool is None or needed <= pool else f"needs {needed} pages, pool has {pool}"

    def start(self, request: Request, output_tokens: int) -> Started | None:
        cache = self._cache
        state = self._states.get(request.request_id) or cache.track(request, request.extra_key)
        self._states[request.request_id] = state
        if not cache.start(state, self._prompt_room(request), max(output_tokens - 1, 0)):
            return None
        cache.checkpoint(state)
        return Started(state.hit_tokens)

    def finish(self, request_id: str, output_token_ids: Sequence[int]) -> None:
        state = self._states.pop(request_id)
        if output_token_ids:
            self._cache.append_output(state, output_token_ids)
            self._cache.use_room(state, len(output_token_ids) - 1)
        self._cache.finish(state)

    def details(self) -> dict[str, Any]:
        shared = self._cache.shared_namespaces.found
        return {"shared_namespaces": [[_as_json(namespace) for namespace in group] for group in shared]}

    def _prompt_room(self, request: Request) -> int:
        if self._outputs or request.prompt_token_ids is not None:
            return request.prompt_tokens
        return request.prompt_tokens // self._cache.page_size * self._cache.page_size


def _as_json(namespace: Namespace) -> dict[str, str | None]:
    return {"extra_key": namespace.extra_key, "lora": namespace.adapter, "cache_salt": namespace.cache_salt}
