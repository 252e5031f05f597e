"""Defects in what identifies a block."""

import os
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from hitcurve_simulator.vllm import CacheManager, Request, RequestState
from hitcurve_simulator.vllm.block_keys import ExtraKeys, VllmHasher

__all__ = [
    "AdapterNotHashed",
    "ImageNotHashed",
    "ParentNotHashed",
    "RandomHashRoot",
    "SaltNotHashed",
    "StaleAfterReload",
]


class _KeyedAsAnother(CacheManager):
    """Keys are made as if the request were another one; everything else sees the request as it is."""

    def _seen(self, request: Request) -> Request:
        raise NotImplementedError

    def track(self, request: Request) -> RequestState:
        state = super().track(self._seen(request))
        state.request = request
        return state

    def append_output(self, state: RequestState, token_ids: Sequence[int]) -> None:
        request = state.request
        state.request = self._seen(request)
        super().append_output(state, token_ids)
        state.request = request


class AdapterNotHashed(_KeyedAsAnother):
    """Blocks of one adapter are found by another."""

    def _seen(self, request: Request) -> Request:
        return replace(request, adapter=None, adapter_path="")


class StaleAfterReload(_KeyedAsAnother):
    """Blocks are told apart by the adapter's name only, so other weights under that name find them."""

    def _seen(self, request: Request) -> Request:
        return replace(request, adapter_path="")


class SaltNotHashed(_KeyedAsAnother):
    """Blocks of one tenant are found by another."""

    def _seen(self, request: Request) -> Request:
        return replace(request, cache_salt=None)


class ImageNotHashed(_KeyedAsAnother):
    """Two images of one size are the same to the cache."""

    def _seen(self, request: Request) -> Request:
        return replace(request, images=())


class ParentNotHashed(CacheManager):
    """A block is found by its own tokens, whatever comes before it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        hasher = self._hasher

        def alone(parent: Hashable, content: Hashable, extra_keys: ExtraKeys) -> Hashable:
            return hasher(None, content, extra_keys)

        self._hasher = alone


class RandomHashRoot(CacheManager):
    """Hashes begin with a random number, so two replicas give the same prefix two hashes."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._hasher = VllmHasher("sha256", os.urandom(32))
