"""A vLLM plugin for tests only: plants the defect that ``HITCURVE_MUTANT`` names into vLLM 0.32's own classes.

It is found by vLLM because its folder, metadata included, is on ``PYTHONPATH``. Runs in vLLM's environment.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = ["DEFECTS", "plant"]


def plant() -> None:
    """Called by vLLM in each of its processes."""
    name = os.environ.get("HITCURVE_MUTANT")
    if name:
        DEFECTS[name]()


def _adapter_not_hashed() -> None:
    from vllm.v1.core import kv_cache_utils

    kv_cache_utils._gen_lora_extra_hash_keys = lambda request: []


def _stale_after_reload() -> None:
    from vllm.v1.core import kv_cache_utils

    def by_name(request: Any) -> list[Any]:
        return [("lora", request.lora_request.lora_name, "")] if request.lora_request else []

    kv_cache_utils._gen_lora_extra_hash_keys = by_name


def _salt_not_hashed() -> None:
    from vllm.v1.core import kv_cache_utils

    original = kv_cache_utils.generate_block_hash_extra_keys

    def unsalted(request: Any, *arguments: Any) -> Any:
        salt, request.cache_salt = request.cache_salt, None
        try:
            return original(request, *arguments)
        finally:
            request.cache_salt = salt

    kv_cache_utils.generate_block_hash_extra_keys = unsalted


def _parent_not_hashed() -> None:
    from vllm.v1.core import kv_cache_utils

    original = kv_cache_utils.hash_block_tokens

    def alone(function: Any, parent: Any, tokens: Sequence[int], extra_keys: Any = None) -> Any:
        return original(function, None, tokens, extra_keys)

    kv_cache_utils.hash_block_tokens = alone


def _reset_clears_nothing() -> None:
    from vllm.v1.core.block_pool import BlockPool

    BlockPool.reset_prefix_cache = lambda self: self.num_gpu_blocks - self.get_num_free_blocks() == 1


def _head_evicted_first() -> None:
    from vllm.v1.core.block_pool import BlockPool

    original = BlockPool.free_blocks

    def from_the_head(self: Any, ordered_blocks: Iterable[Any]) -> None:
        original(self, reversed(list(ordered_blocks)))

    BlockPool.free_blocks = from_the_head


def _newest_evicted_first() -> None:
    from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue

    FreeKVCacheBlockQueue.append_n = lambda self, blocks: self.prepend_n(blocks)


def _leak_on_abort() -> None:
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.request import RequestStatus

    original = Scheduler.finish_requests

    def leaking(self: Any, request_ids: Any, finished_status: Any) -> Any:
        ids = (request_ids,) if isinstance(request_ids, str) else list(request_ids or ())
        if finished_status == RequestStatus.FINISHED_ABORTED:
            for request_id in ids:
                request = self.requests.get(request_id)
                if request is not None and not request.is_finished():
                    for blocks in self.kv_cache_manager.get_blocks(request_id).blocks:
                        self.kv_cache_manager.block_pool.touch(list(blocks))
        return original(self, ids or request_ids, finished_status)

    Scheduler.finish_requests = leaking


def _cache_secretly_off() -> None:
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    original = KVCacheManager.get_computed_blocks

    def nothing(self: Any, request: Any, *arguments: Any, **named: Any) -> Any:
        skipped, request.skip_reading_prefix_cache = request.skip_reading_prefix_cache, True
        try:
            return original(self, request, *arguments, **named)
        finally:
            request.skip_reading_prefix_cache = skipped

    KVCacheManager.get_computed_blocks = nothing


def _pool_secretly_halved() -> None:
    from vllm.v1.core.block_pool import BlockPool

    original = BlockPool.__init__

    def half(self: Any, num_gpu_blocks: int, *arguments: Any, **named: Any) -> None:
        original(self, num_gpu_blocks // 2, *arguments, **named)

    BlockPool.__init__ = half


def _slow_lookup() -> None:
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    original = KVCacheManager.get_computed_blocks

    def slow(self: Any, request: Any, *arguments: Any, **named: Any) -> Any:
        if not request.skip_reading_prefix_cache:
            time.sleep(0.02)
        return original(self, request, *arguments, **named)

    KVCacheManager.get_computed_blocks = slow


def _recorded(change: Callable[[int, int, bool], tuple[int, int, bool] | None]) -> Callable[[], None]:
    """Counts ``change`` of what was looked up: tokens, hits, whether it came back; ``None`` counts nothing."""

    def defect() -> None:
        from vllm.v1.metrics.stats import PrefixCacheStats

        original = PrefixCacheStats.record

        def record(self: Any, num_tokens: int, num_hits: int, preempted: bool, *more: Any, **named: Any) -> None:
            changed = change(num_tokens, num_hits, preempted)
            if changed is not None:
                original(self, *changed)

        PrefixCacheStats.record = record

    return defect


DEFECTS: dict[str, Callable[[], None]] = {
    "adapter-not-hashed": _adapter_not_hashed,
    "stale-after-reload": _stale_after_reload,
    "salt-not-hashed": _salt_not_hashed,
    "parent-not-hashed": _parent_not_hashed,
    "reset-clears-nothing": _reset_clears_nothing,
    "head-evicted-first": _head_evicted_first,
    "newest-evicted-first": _newest_evicted_first,
    "leak-on-abort": _leak_on_abort,
    "cache-secretly-off": _cache_secretly_off,
    "pool-secretly-halved": _pool_secretly_halved,
    "slow-lookup": _slow_lookup,
    "hits-counted-twice": _recorded(lambda tokens, hits, preempted: (tokens, 2 * hits, preempted)),
    "counters-stuck": _recorded(lambda tokens, hits, preempted: None),
    "preempted-as-hits": _recorded(lambda tokens, hits, preempted: (tokens, tokens if preempted else hits, False)),
}
