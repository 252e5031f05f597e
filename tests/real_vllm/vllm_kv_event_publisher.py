"""Run by the Python of a real vLLM: its own cache manager under pressure, its own publisher of KV events.

    python vllm_kv_event_publisher.py ENDPOINT REPLAY_ENDPOINT SEED

Reads commands on stdin, ``steps N`` or ``reset``, and answers each with one line of JSON: what the manager itself
holds and what it evicted, as its own tables and its own eviction say.
"""

import json
import random
import sys
import time
from typing import Any

import torch
import vllm.v1.core.kv_cache_utils as utils
from vllm.distributed.kv_events import KVEventBatch, ZmqEventPublisher
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

BLOCK = 16
POOL = 97


class Engine:
    """Requests of shared prefixes, several at a time, so that blocks are stored twice and evicted."""

    def __init__(self, dice: random.Random) -> None:
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32)
        config = KVCacheConfig(
            num_blocks=POOL, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
        )
        self.manager = KVCacheManager(
            config,
            max_model_len=4096,
            scheduler_block_size=BLOCK,
            hash_block_size=BLOCK,
            enable_kv_cache_events=True,
            log_stats=True,
        )
        utils.init_none_hash(sha256)
        self.hasher = utils.get_request_block_hasher(BLOCK, sha256)
        self.dice = dice
        self.running: list[Request] = []
        self.number = self.evicted = 0
        pool = self.manager.block_pool
        evict = pool._maybe_evict_cached_block

        def counting(block: Any) -> bool:
            done = evict(block)
            self.evicted += done
            return bool(done)

        pool._maybe_evict_cached_block = counting

    def step(self) -> None:
        """Some requests come, some go."""
        for _ in range(self.dice.randrange(1, 4)):
            self.number += 1
            prompt = [self.dice.randrange(12)] * (BLOCK * self.dice.randrange(2, 16))
            # The last block of a prompt that is cached whole is computed again, and stored a second time.
            prompt += self.dice.choice(([], [self.number]))
            request = Request(
                request_id=str(self.number),
                prompt_token_ids=prompt,
                sampling_params=SamplingParams(max_tokens=16),
                pooling_params=None,
                block_hasher=self.hasher,
            )
            found, tokens, *_ = self.manager.get_computed_blocks(request)
            room = self.manager.allocate_slots(request, request.num_tokens - tokens, tokens, found)
            if room is not None:
                request.num_computed_tokens = request.num_tokens
                self.running.append(request)
        while len(self.running) > self.dice.randrange(0, 4):
            self.manager.free(self.running.pop(0))

    def reset(self) -> bool:
        """After everybody has gone."""
        for request in self.running:
            self.manager.free(request)
        self.running.clear()
        return self.manager.reset_prefix_cache()

    def told(self) -> dict[str, int]:
        """The truth."""
        copies: dict[bytes, int] = {}
        for block in self.manager.block_pool.blocks:
            if block.block_hash is not None:
                copies[block.block_hash] = copies.get(block.block_hash, 0) + 1
        return {
            "live": len(self.manager.block_pool.cached_block_hash_to_block),
            "duplicate_blocks": sum(copies.values()) - len(copies),
            "duplicate_hashes": sum(count > 1 for count in copies.values()),
            "evicted": self.evicted,
        }


def main() -> None:
    """Answer until stdin ends."""
    endpoint, replay_endpoint, seed = sys.argv[1:]
    engine = Engine(random.Random(int(seed)))
    publisher = ZmqEventPublisher(0, endpoint, replay_endpoint, buffer_steps=10_000)
    batches = 0
    print("ready", flush=True)
    for line in sys.stdin:
        command, _, count = line.strip().partition(" ")
        for _ in range(int(count or 1)):
            if command == "reset":
                assert engine.reset()
            else:
                engine.step()
            events = engine.manager.take_events()
            if events:
                publisher.publish(KVEventBatch(ts=time.time(), events=events))
                batches += 1
        print(json.dumps({"batches": batches, **engine.told()}), flush=True)
    publisher.shutdown()


if __name__ == "__main__":
    main()
