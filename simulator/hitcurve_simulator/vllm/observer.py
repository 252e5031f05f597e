"""Who listens to a cache: a ledger, a recorder, a test. Nobody by default."""

from collections.abc import Hashable
from typing import Protocol

from hitcurve_simulator.vllm.request import RequestState

__all__ = ["CacheObserver"]


class CacheObserver(Protocol):
    """Told of each event right after it happened, in order."""

    def looked_up(self, state: RequestState, hit_tokens: int) -> None:
        """A lookup attempt of a request that may read the cache; a request refused for want of blocks or
        budget is looked up again. ``state.num_tokens`` are its query tokens, ``state.keys`` its full blocks."""

    def scheduled(self, state: RequestState, hit_tokens: int) -> None:
        """The request was admitted with these hit tokens (0 where it may not read the cache)."""

    def stored(self, state: RequestState, first_block: int, end_block: int) -> None:
        """``state.keys[first_block:end_block]`` became hittable."""

    def evicted(self, key: Hashable, gone: bool, request_id: str) -> None:
        """A block with this key was reallocated to ``request_id``; ``gone`` unless another copy remains."""

    def preempted(self, state: RequestState) -> None:
        """The request lost its blocks and waits again."""

    def finished(self, state: RequestState) -> None:
        """The request ended or was aborted; its blocks are freed."""

    def reset(self, done: bool) -> None:
        """Somebody asked to drop every hash; ``done`` says whether it was, or was refused."""
