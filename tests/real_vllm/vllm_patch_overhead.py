"""The worker of tests/benchmarks/engine_patch_overhead.py; runs in the environment of a real vLLM."""

import gc
import inspect
import json
import statistics
import sys
import time
from itertools import count
from typing import Any

import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request, RequestStatus

from hitcurve_engine import plugin
from hitcurve_engine.recording.recorder import Recorder

BLOCK_SIZE = 16
POOL_BLOCKS = 4096
GROUP = 12
REPLAYED_ROUNDS = 20
WARM_UP = 2
names = count()
tokens = count(1000)


class Bench:
    """One manager over a pool that has wrapped around."""

    def __init__(self) -> None:
        spec = FullAttentionSpec(block_size=BLOCK_SIZE, num_kv_heads=1, head_size=8, dtype=torch.float32)
        options: dict[str, Any] = {"scheduler_block_size": BLOCK_SIZE, "hash_block_size": BLOCK_SIZE}
        known = inspect.signature(KVCacheManager.__init__).parameters
        self.manager = KVCacheManager(
            kv_cache_config=KVCacheConfig(
                num_blocks=POOL_BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
            ),
            max_model_len=100_000,
            enable_caching=True,
            log_stats=True,
            **{name: value for name, value in options.items() if name in known},
        )
        self.hasher = get_request_block_hasher(BLOCK_SIZE, sha256)

    def request(self, prompt: list[int]) -> Request:
        return Request(
            request_id=f"request-{next(names)}",
            prompt_token_ids=prompt,
            sampling_params=SamplingParams(max_tokens=16),
            pooling_params=None,
            block_hasher=self.hasher,
        )

    def prepare(self, blocks: int, shared: list[int]) -> list[Request]:
        own = blocks * BLOCK_SIZE + 1 - len(shared)
        return [self.request([*shared, *([next(tokens)] * own)]) for _ in range(GROUP)]

    def time(self, requests: list[Request]) -> list[float]:
        """Microseconds of each request; the first ones only warm the caches."""
        times = []
        for request in requests:
            start = time.perf_counter_ns()
            self.play(request)
            times.append((time.perf_counter_ns() - start) / 1000)
        return times[WARM_UP:]

    def play(self, request: Request) -> None:
        manager = self.manager
        result = manager.get_computed_blocks(request)
        hit = result[1]
        manager.allocate_slots(
            request, request.num_tokens - hit, num_new_computed_tokens=hit, new_computed_blocks=result[0]
        )
        request.status = RequestStatus.FINISHED_STOPPED
        manager.free(request)


def measure(bench: Bench, recorder: Recorder | None, blocks: int, share: float) -> dict[str, float]:
    """One round: microseconds per request on the engine's thread. Nothing is replayed."""
    times = bench.time(bench.prepare(blocks, [7] * (int(blocks * share) * BLOCK_SIZE)))
    if recorder is not None:
        recorder.probe.events.clear()
    return {"engine_us": statistics.median(times)}


def replay(bench: Bench, recorder: Recorder, blocks: int, share: float) -> dict[str, float]:
    """CPU microseconds per request of what the recorder's thread does."""
    spent = []
    for _ in range(REPLAYED_ROUNDS):
        bench.time(bench.prepare(blocks, [7] * (int(blocks * share) * BLOCK_SIZE)))
        start = time.thread_time()
        while recorder.probe.events:
            recorder.replay.feed(recorder.probe.events.popleft())
        spent.append((time.thread_time() - start) / GROUP * 1e6)
    return {"recorder_us": statistics.median(spent)}


def main() -> None:
    """``patched`` or ``unpatched`` as the argument; each line on stdin is ``measure|replay blocks share``."""
    init_none_hash(sha256)
    if sys.argv[1] == "patched":
        plugin.register()
    bench = Bench()
    hooks = plugin.hooks()
    recorder = None if hooks is None else hooks.recorders[0]
    if recorder is not None:
        recorder.probe.started = True  # its thread rests while the hooks are measured
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        what, blocks, share = line.split()
        if what == "replay" and recorder is not None:
            answer = replay(bench, recorder, int(blocks), float(share))
        else:
            answer = measure(bench, recorder, int(blocks), float(share))
        print(json.dumps(answer), flush=True)
    if recorder is not None:
        assert not recorder.status.errors, recorder.status.errors
        assert recorder.replay.ledger.totals.hit_tokens


if __name__ == "__main__":
    main()
