"""Plays operations on SGLang's own radix caches; runs in the environment of a real engine, not in ours.

Reads one JSON run a line on stdin and writes the list of its answers on stdout, after a line ``ready``::

    {"core": "legacy" | "python" | "rust", "policy": str, "num_pages": int, "page_size": int, "operations": […]}

    ["start", id, prompt, chunk, room, adapter, salt, extra_key, priority, skip]  hit tokens, null when refused
    ["again", id, chunk]                  as start, for a retracted request
    ["grow", id, tokens, decoding]        true, false when refused
    ["append", id, tokens]                null (generated tokens)
    ["use_room", id, tokens]              null (tokens that start made room for)
    ["checkpoint" | "retract" | "finish" | "abort", id]  null
    ["room", tokens], ["reset"]           null; whether it was done

Each answer is ``[result, fingerprints of the evicted pages in order, free, evictable, locked pages]``.
"""

import json
import sys
import zlib
from array import array
from types import SimpleNamespace
from typing import Any

from sglang_parts import Pages, Rows  # isort: skip  (must come before anything of the engine)
from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
from sglang.srt.mem_cache.unified_cache.components import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache


class Cache:
    """One cache under operations."""

    def __init__(self, core: str, policy: str, num_pages: int, page_size: int) -> None:
        self.page_size = page_size
        self.pages = Pages(num_pages, page_size)
        self.rows = Rows()
        self.requests: dict[str, Any] = {}
        self.started: set[str] = set()
        parameters: dict[str, Any] = {
            "disable": False,
            "req_to_token_pool": self.rows,
            "token_to_kv_pool_allocator": self.pages,
            "page_size": page_size,
            "eviction_policy": policy,
        }
        if core == "legacy":
            self.tree: Any = RadixCache(CacheInitParams(**parameters))
        else:
            self.tree = UnifiedRadixCache(
                CacheInitParams(**parameters, tree_components=(ComponentType.FULL,), tree_core_backend=core)
            )

    def play(self, operation: list[Any]) -> list[Any]:
        name, *arguments = operation
        self.pages.evicted = None
        self.dropped: list[int] = []
        result = getattr(self, name)(*arguments)
        size, tree = self.page_size, self.tree
        held = [len(self.pages.free_pages), tree.evictable_size() // size, tree.protected_size() // size]
        return [result, self.dropped, *held]

    def start(
        self,
        request_id: str,
        prompt: list[int],
        chunk: int,
        room: int,
        adapter: str | None,
        salt: str | None,
        extra_key: str | None,
        priority: int,
        skip: bool,
    ) -> int | None:
        # What the engine does with an empty text, and the constructor of a request with an adapter.
        extra_key = extra_key or None
        if adapter is not None:
            extra_key = (extra_key or "") + adapter
        refused = self.requests.get(request_id)
        row = self.rows.unused.pop() if refused is None else refused.kv.req_pool_idx
        self.requests[request_id] = SimpleNamespace(
            rid=request_id,
            origin_input_ids=array("q", prompt),
            full_untruncated_fill_ids=array("q", prompt),
            extra_key=extra_key,
            cache_salt=salt or None,
            priority=priority,
            session=None,
            session_id=None,
            kv_rotation_base=None,
            skip=skip,
            lock=None,
            last_node=None,
            computed=0,
            room=0,
            finished=lambda: False,
            kv=SimpleNamespace(
                req_pool_idx=row,
                cache_protected_len=0,
                cache_inserted_len=0,
                swa_evict_floor=0,
                swa_dead_lo=lambda page_size: 0,
                get_evicted_seqlen=lambda component: 0,
            ),
        )
        return self._start(self.requests[request_id], chunk, room)

    def again(self, request_id: str, chunk: int) -> int | None:
        return self._start(self.requests[request_id], chunk, 0)

    def _start(self, request: Any, chunk: int, room: int) -> int | None:
        ids = request.full_untruncated_fill_ids
        limit = 0 if request.skip else len(ids) - 1
        match = self.tree.match_prefix(MatchPrefixParams(key=self._key(request, limit)))
        request.lock = self.tree.lock(match.last_device_node)
        hits = match.device_prefix_len
        request.kv.cache_protected_len = request.computed = request.room = hits
        row = self.rows.req_to_token[request.kv.req_pool_idx]
        row[:hits] = self.tree.path_device_indices(match.last_device_node)
        tokens = min(chunk, len(ids) - hits)
        if not self._allocate(request, tokens + room, False):
            self.tree.unlock(request.lock)
            request.lock = None
            return None
        request.computed = hits + tokens
        self.started.add(request.rid)
        return hits

    def grow(self, request_id: str, tokens: int, decoding: bool) -> bool:
        request = self.requests[request_id]
        if not self._allocate(request, tokens, decoding):
            return False
        request.computed += tokens
        return True

    def append(self, request_id: str, tokens: list[int]) -> None:
        self.requests[request_id].full_untruncated_fill_ids.extend(tokens)

    def use_room(self, request_id: str, tokens: int) -> None:
        request = self.requests[request_id]
        self._name_pages(request, request.computed, request.computed + tokens)
        request.computed += tokens

    def checkpoint(self, request_id: str) -> None:
        request = self.requests[request_id]
        self.tree.checkpoint(request, up_to=request.computed)

    def finish(self, request_id: str) -> None:
        self.checkpoint(request_id)
        self.abort(request_id)

    def abort(self, request_id: str) -> None:
        request = self.requests.pop(request_id)
        self._release(request)
        self.rows.unused.append(request.kv.req_pool_idx)

    def retract(self, request_id: str) -> None:
        request = self.requests[request_id]
        self._release(request)
        request.computed = request.kv.cache_inserted_len = 0

    def _release(self, request: Any) -> None:
        row = self.rows.req_to_token[request.kv.req_pool_idx]
        self.pages.free(row[request.kv.cache_protected_len : request.room])
        self.tree.unlock(request.lock)
        request.lock = None
        self.started.discard(request.rid)

    def room(self, tokens: int) -> None:
        self.pages.evicted = []
        self.pages.evict_to_free_tokens(self.tree, tokens)
        self.dropped, self.pages.evicted = self.pages.evicted, None

    def reset(self) -> bool:
        if self.started:
            return False
        held = self.tree.all_values_flatten() if self.tree.evictable_size() else None
        self.tree.reset()
        if held is not None:
            self.pages.free(held)
        return True

    def _allocate(self, request: Any, tokens: int, decoding: bool) -> bool:
        """As ``alloc_for_extend`` and ``alloc_for_decode``; whether it fits is asked first, as schedulers do."""
        size = self.page_size
        end = request.computed + tokens
        needed = max(-(-end // size) - -(-request.room // size), 0)
        if needed > len(self.pages.free_pages) + self.tree.evictable_size() // size:
            return False
        if size == 1:
            self.room(tokens)
        else:
            self.room(size if decoding else tokens + size)
        row = self.rows.req_to_token[request.kv.req_pool_idx]
        first = -(-request.room // size) * size
        if request.room < first:
            page = int(row[request.room - 1]) // size
            for position in range(request.room, first):
                row[position] = page * size + position % size
        for number, page in enumerate(self.pages.take(needed)):
            start = first + number * size
            for position in range(start, start + size):
                row[position] = page * size + position % size
        self._name_pages(request, request.computed, min(end, len(request.full_untruncated_fill_ids)))
        request.room = max(request.room, end)
        return True

    def _name_pages(self, request: Any, start: int, end: int) -> None:
        """Remember what the pages that end within these positions hold: namespace and all tokens so far."""
        size = self.page_size
        ids = request.full_untruncated_fill_ids
        value = zlib.crc32(repr((request.extra_key or None, request.cache_salt)).encode())
        row = self.rows.req_to_token[request.kv.req_pool_idx]
        for position in range(0, end - end % size, size):
            value = zlib.crc32(ids[position : position + size].tobytes(), value)
            if position + size > start:
                self.pages.fingerprints[int(row[position]) // size] = value

    def _key(self, request: Any, limit: int) -> Any:
        return RadixKey(
            request.full_untruncated_fill_ids, request.extra_key, limit=limit, cache_salt=request.cache_salt
        )


def main() -> None:
    """Answer stdin, run by run."""
    print("ready", flush=True)
    for line in sys.stdin:
        run = json.loads(line)
        cache = Cache(run["core"], run["policy"], run["num_pages"], run["page_size"])
        print(json.dumps([cache.play(operation) for operation in run["operations"]]), flush=True)


if __name__ == "__main__":
    main()
