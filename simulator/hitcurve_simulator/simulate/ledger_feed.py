"""Feeds the ledger with what happens in a cache manager, so that misses get their reasons."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from hitcurve_engine.ledger import Ledger
from hitcurve_simulator.vllm import InterningHasher, RequestState
from hitcurve_simulator.vllm.block_keys import extend_keys

__all__ = ["LedgerFeed"]

# Bare content has no extra keys, so the version that decides their form does not matter.
_NO_EXTRA_KEYS = (0,)


class LedgerFeed:
    """A ``CacheObserver`` that passes each event on to a ledger.

    ``clock`` gives seconds. ``isolating``: also follow what a block holds apart from adapter, salt and images,
    so that a miss can read ``isolated``; costs a second chain of keys per request.
    """

    def __init__(self, ledger: Ledger, clock: Callable[[], float], block_size: int, isolating: bool) -> None:
        self._ledger = ledger
        self._clock = clock
        self._block_size = block_size
        self._contents = InterningHasher() if isolating else None
        self._bare: dict[str, RequestState] = {}

    def looked_up(self, state: RequestState, hit_tokens: int) -> None:
        self._lookup(state, hit_tokens, skipped=False)

    def scheduled(self, state: RequestState, hit_tokens: int) -> None:
        if state.request.skip_reading_prefix_cache:
            self._lookup(state, 0, skipped=True)
        self._ledger.scheduled(state.request_id, self._clock(), hit_tokens)

    def stored(self, state: RequestState, first_block: int, end_block: int) -> None:
        content_keys = self._content_keys(state)
        self._ledger.stored(
            self._clock(),
            state.keys[first_block:end_block],
            state.request_id,
            first_block,
            None if content_keys is None else content_keys[first_block:end_block],
        )

    def evicted(self, key: Hashable, gone: bool, request_id: str) -> None:
        self._ledger.evicted(self._clock(), (key,), request_id)

    def preempted(self, state: RequestState) -> None:
        self._ledger.preempted(state.request_id, self._clock())

    def finished(self, state: RequestState) -> None:
        self._bare.pop(state.request_id, None)
        self._ledger.finished(state.request_id, self._clock(), state.prompt_tokens, state.hit_tokens)

    def reset(self, done: bool) -> None:
        self._ledger.reset(self._clock(), done)

    def _lookup(self, state: RequestState, hit_tokens: int, skipped: bool) -> None:
        request = state.request
        self._ledger.lookup(
            state.request_id,
            self._clock(),
            state.num_tokens,
            hit_tokens,
            state.keys,
            self._content_keys(state),
            adapter=request.adapter,
            salt=request.cache_salt,
            image=request.images or None,
            skipped=skipped,
        )

    def _content_keys(self, state: RequestState) -> Sequence[Hashable] | None:
        if self._contents is None:
            return None
        bare = self._bare.get(state.request_id)
        if bare is None:
            request = replace(state.request, adapter=None, cache_salt=None, images=())
            bare = self._bare[state.request_id] = RequestState(request)
        bare.num_tokens, bare.output_token_ids = state.num_tokens, state.output_token_ids
        extend_keys(self._contents, bare, self._block_size, _NO_EXTRA_KEYS)
        return bare.keys
