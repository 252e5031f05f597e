"""Plays operations on vLLM's own KV cache manager, 0.8.5 to 0.32; runs in a real vLLM's environment, not in ours.

Reads one JSON run a line on stdin and writes the list of its answers on stdout, after a line ``ready``::

    {"num_blocks": int, "block_size": int, "eagle": bool, "operations": [[name, …], …],
     "groups": [[block size, window | null], …], "in_flight": int | null}   the last two only for several groups

    ["admit", id, prompt, chunk, lookahead, adapter | null, salt | null, skip, external]
                                   hit tokens, null when refused (external: tokens that a connector brings)
    ["compute", id, tokens]        true, false when refused (the next tokens of the sequence)
    ["append", id, tokens]         null (generated tokens)
    ["preempt", id], ["free", id]  null
    ["again", id, chunk]           as admit, for a preempted request
    ["reset"]                      true, false when refused

Each answer is ``[result, evicted blocks in order, blocks of the request]``, with groups a list of blocks for each
group; the last answer of a run is ``["end", [], free blocks in order, counters]``, the counters being the
manager's own requests, queries and hits. A run decides nothing: operations follow from earlier answers, which are
equal on both sides or the comparison fails.
"""

import inspect
import json
import math
import sys
import time
from typing import Any

import torch
import vllm.v1.core.kv_cache_utils as utils
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.request import Request, RequestStatus

try:
    from vllm.utils.hashing import sha256
except ImportError:
    from vllm.utils import sha256

MAX_MODEL_LEN = 1_000_000


def accepted(function: Any, **values: Any) -> dict[str, Any]:
    """Those of the values that a version has parameters for."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in parameters}


def spec_of(block_size: int, window: int | None) -> Any:
    """Full attention, or a sliding window of so many tokens."""
    shape = {"block_size": block_size, "num_kv_heads": 1, "head_size": 8, "dtype": torch.float32}
    if window is not None:
        return SlidingWindowSpec(sliding_window=window, **shape, **accepted(SlidingWindowSpec, use_mla=False))
    return FullAttentionSpec(**shape, **accepted(FullAttentionSpec, use_mla=False))


class RealManager:
    """One manager over ``num_blocks`` blocks, the null block included."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        eagle: bool,
        groups: list[tuple[int, int | None]] | None = None,
        in_flight: int | None = None,
    ) -> None:
        kinds = groups or [(block_size, None)]
        self.several = groups is not None
        hash_size = math.gcd(*(size for size, _ in kinds))
        config = KVCacheConfig(
            num_blocks=num_blocks,
            kv_cache_groups=[
                KVCacheGroupSpec([f"layer {number}"], spec_of(size, window))
                for number, (size, window) in enumerate(kinds)
            ],
            **accepted(KVCacheConfig, tensors={}, kv_cache_tensors=[]),
        )
        options = accepted(
            KVCacheManager,
            scheduler_block_size=math.lcm(*(size for size, _ in kinds)),
            hash_block_size=hash_size,
            caching_hash_algo="sha256",
            log_stats=True,
            use_eagle=eagle,
            max_in_flight_tokens=in_flight,
            max_num_batched_tokens=in_flight,
        )
        self.manager = KVCacheManager(config, max_model_len=MAX_MODEL_LEN, enable_caching=True, **options)
        make_hasher = getattr(utils, "get_request_block_hasher", None)
        self.block_hasher = make_hasher(hash_size, sha256) if make_hasher else None
        self.requests: dict[str, Request] = {}
        self.adapters: dict[str, int] = {}
        self.evicted: list[int] = []
        self.counters = [0, 0, 0]
        pool = self.manager.block_pool
        evict = pool._maybe_evict_cached_block

        def recording(block: Any) -> bool:
            done = evict(block)
            if done:
                self.evicted.append(block.block_id)
            return done

        pool._maybe_evict_cached_block = recording

    def play(self, operation: list[Any]) -> list[Any]:
        name, *arguments = operation
        self.evicted = []
        result = getattr(self, name)(*arguments)
        blocks = self._blocks_of(arguments[0]) if arguments and name != "free" else []
        return [result, self.evicted, blocks]

    def _blocks_of(self, request_id: str) -> list[int] | list[list[int]]:
        if self.several:
            return [list(ids) for ids in self.manager.get_block_ids(request_id)]
        if hasattr(self.manager, "req_to_blocks"):
            return [block.block_id for block in self.manager.req_to_blocks.get(request_id, ())]
        ids = self.manager.get_block_ids(request_id)
        return list(ids[0]) if ids else []

    def admit(
        self,
        request_id: str,
        prompt: list[int],
        chunk: int,
        lookahead: int,
        adapter: str | None,
        salt: str | None,
        skip: bool,
        external: int = 0,
    ) -> int | None:
        number = self.adapters.setdefault(adapter, len(self.adapters) + 1) if adapter else 0
        # Asking for the logprobs of the prompt is what makes a request skip the cache in every version.
        request = self.requests[request_id] = Request(
            request_id=request_id,
            prompt_token_ids=prompt,
            sampling_params=SamplingParams(max_tokens=1000, prompt_logprobs=1 if skip else None),
            lora_request=LoRARequest(adapter, number, "/" + adapter) if adapter else None,
            **accepted(
                Request,
                pooling_params=None,
                eos_token_id=None,
                arrival_time=time.time(),
                cache_salt=salt,
                block_hasher=self.block_hasher,
                multi_modal_inputs=None,
                multi_modal_kwargs=None,
                multi_modal_hashes=None,
                multi_modal_placeholders=None,
            ),
        )
        return self._admit(request, chunk, lookahead, external)

    def again(self, request_id: str, chunk: int) -> int | None:
        return self._admit(self.requests[request_id], chunk, 0)

    def compute(self, request_id: str, tokens: int) -> bool:
        request = self.requests[request_id]
        if self.manager.allocate_slots(request, tokens) is None:
            return False
        request.num_computed_tokens += tokens
        return True

    def append(self, request_id: str, tokens: list[int]) -> None:
        self.requests[request_id].append_output_token_ids(tokens)

    def preempt(self, request_id: str) -> None:
        request = self.requests[request_id]
        self.manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        if hasattr(request, "num_preemptions"):
            request.num_preemptions += 1

    def free(self, request_id: str) -> None:
        request = self.requests.pop(request_id)
        self.manager.free(request)
        if hasattr(self.manager, "free_block_hashes"):
            self.manager.free_block_hashes(request)

    def reset(self) -> bool:
        self._take_counters()
        done = self.manager.reset_prefix_cache()
        # A reset is told to the log by the same record; it counts nothing.
        self.manager.make_prefix_cache_stats()
        return done

    def end(self) -> list[Any]:
        self._take_counters()
        free = [block.block_id for block in self.manager.block_pool.free_block_queue.get_all_free_blocks()]
        return ["end", [], free, self.counters]

    def _take_counters(self) -> None:
        taken = self.manager.make_prefix_cache_stats()
        for place, name in enumerate(("requests", "queries", "hits")):
            self.counters[place] += getattr(taken, name)

    def _admit(self, request: Request, chunk: int, lookahead: int, external: int = 0) -> int | None:
        blocks, hits = self.manager.get_computed_blocks(request)[:2]
        external = max(min(external, request.num_tokens - hits - 1), 0)
        tokens = min(chunk, request.num_tokens - hits - external)
        before = {"num_new_computed_tokens": hits, "num_external_computed_tokens": external}
        allocated = self.manager.allocate_slots(
            request,
            tokens,
            new_computed_blocks=blocks,
            num_lookahead_tokens=lookahead,
            **accepted(self.manager.allocate_slots, full_sequence_must_fit=True, **before),
        )
        if allocated is None:
            return None
        if hasattr(self.manager, "record_prefix_cache_stats"):
            self.manager.record_prefix_cache_stats(request, hits)
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = hits + external + tokens
        return hits


def main() -> None:
    """Answer stdin, run by run."""
    if hasattr(utils, "get_request_block_hasher") and hasattr(utils, "init_none_hash"):
        utils.init_none_hash(sha256)
    print("ready", flush=True)
    for line in sys.stdin:
        run = json.loads(line)
        grouped = {name: run[name] for name in ("groups", "in_flight") if name in run}
        real = RealManager(run["num_blocks"], run["block_size"], run["eagle"], **grouped)
        answers = [real.play(operation) for operation in run["operations"]]
        print(json.dumps([*answers, real.end()]), flush=True)


if __name__ == "__main__":
    main()
