"""Plays operations on vLLM's own KV cache manager; runs in the environment of a real vLLM, not in ours.

Reads a JSON list of runs on stdin and prints one list of answers for each on stdout::

    {"num_blocks": int, "block_size": int, "operations": [[name, …], …]}

    ["admit", id, prompt, chunk, lookahead, adapter | null, salt | null, skip]  hit tokens, null when refused
    ["compute", id, tokens]        true, false when refused (the next tokens of the sequence)
    ["append", id, tokens]         null (generated tokens)
    ["preempt", id], ["free", id]  null
    ["again", id, chunk]           as admit, for a preempted request
    ["reset"]                      true, false when refused

Each answer is ``[result, blocks of the request, evicted blocks in order]``; the last answer of a run is
``["end", free blocks in order, []]``. A run decides nothing: operations follow from earlier answers, which are
equal on both sides or the test fails.
"""

import json
import sys
from typing import Any

import torch
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request, RequestStatus

MAX_MODEL_LEN = 1_000_000


class RealManager:
    """One manager over ``num_blocks`` blocks, the null block included."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        spec = FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=8, dtype=torch.float32)
        self.manager = KVCacheManager(
            kv_cache_config=KVCacheConfig(
                num_blocks=num_blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
            ),
            max_model_len=MAX_MODEL_LEN,
            scheduler_block_size=block_size,
            hash_block_size=block_size,
            enable_caching=True,
        )
        self.block_hasher = get_request_block_hasher(block_size, sha256)
        self.requests: dict[str, Request] = {}
        self.adapters: dict[str, int] = {}
        self.evicted: list[int] = []
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
        blocks: list[int] = []
        if arguments and name != "free":
            blocks = self.manager.get_block_ids(arguments[0])[0]
        return [result, blocks, self.evicted]

    def admit(
        self,
        request_id: str,
        prompt: list[int],
        chunk: int,
        lookahead: int,
        adapter: str | None,
        salt: str | None,
        skip: bool,
    ) -> int | None:
        number = self.adapters.setdefault(adapter, len(self.adapters) + 1) if adapter else 0
        request = self.requests[request_id] = Request(
            request_id=request_id,
            prompt_token_ids=prompt,
            sampling_params=SamplingParams(max_tokens=1000, skip_reading_prefix_cache=skip),
            pooling_params=None,
            lora_request=LoRARequest(adapter, number, "/" + adapter) if adapter else None,
            cache_salt=salt,
            block_hasher=self.block_hasher,
        )
        return self._admit(request, chunk, lookahead)

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
        request.num_preemptions += 1

    def free(self, request_id: str) -> None:
        self.manager.free(self.requests.pop(request_id))

    def reset(self) -> bool:
        return self.manager.reset_prefix_cache()

    def end(self) -> list[int]:
        return [block.block_id for block in self.manager.block_pool.free_block_queue.get_all_free_blocks()]

    def _admit(self, request: Request, chunk: int, lookahead: int) -> int | None:
        blocks, hits = self.manager.get_computed_blocks(request)[:2]
        tokens = min(chunk, request.num_tokens - hits)
        allocated = self.manager.allocate_slots(
            request,
            tokens,
            hits,
            blocks,
            num_lookahead_tokens=lookahead,
            full_sequence_must_fit=True,
        )
        if allocated is None:
            return None
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = hits + tokens
        return hits


def main() -> None:
    """Answer stdin."""
    init_none_hash(sha256)
    answers = []
    for run in json.load(sys.stdin):
        real = RealManager(run["num_blocks"], run["block_size"])
        answers.append([*(real.play(operation) for operation in run["operations"]), ["end", real.end(), []]])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
