"""The worker of tests/benchmarks/engine_patch_overhead.py; runs in the environment of a real vLLM."""

import gc
import inspect
import json
import marshal
import statistics
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
from hitcurve_engine.probes.adoption import hash_root
from hitcurve_engine.recording.frames import EVENTS, pack
from hitcurve_engine.recording.recorder import Recorder

BLOCK_SIZE = 16
POOL_BLOCKS = 4096
ROUNDS = 24
GROUP = 60
WARM_UP = 20
REPLAYED_ROUNDS = 8
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


def measure(bench: Bench, recorder: Recorder, blocks: int, share: float) -> dict[str, Any]:
    """Rounds with the wrappers in place and with the originals alternate in one process: between two processes the
    layout of memory alone differs by more than the hooks cost."""
    hooks = plugin.hooks()
    assert hooks is not None
    patches = [patch for patch in hooks._patches if patch.name != "__init__"]
    shared = [7] * (int(blocks * share) * BLOCK_SIZE)
    differences, unpatched = [], []
    for number in range(ROUNDS):
        medians = {}
        for on in (True, False) if number % 2 else (False, True):
            for patch in patches:
                setattr(patch.owner, patch.name, patch.wrapper if on else patch.original)
            medians[on] = statistics.median(bench.time(bench.prepare(blocks, shared)))
            recorder.probe.events.clear()
        unpatched.append(medians[False])
        differences.append(medians[True] - medians[False])
    for patch in patches:
        setattr(patch.owner, patch.name, patch.wrapper)
    low, middle, high = statistics.quantiles(differences, n=4)
    return {
        "blocks": blocks,
        "hit_share": share,
        "unpatched_us": round(statistics.median(unpatched), 1),
        "hooks_us": round(middle, 1),
        "hooks_quartiles_us": [round(low, 1), round(high, 1)],
        **beside(bench, recorder, blocks, shared),
    }


def beside(bench: Bench, recorder: Recorder, blocks: int, shared: list[int]) -> dict[str, float]:
    """CPU microseconds per request of what is done beside the scheduler's thread: reading and packing the events
    in the engine's process, and replaying them in another one."""
    bench.manager.reset_prefix_cache()
    spent = []
    for _ in range(REPLAYED_ROUNDS):
        hand_over(recorder)
        bench.time(bench.prepare(blocks, shared))
        start = time.thread_time()
        frame = hand_over(recorder)
        packed = time.thread_time()
        (message,) = marshal.loads(frame[4:])[1:]
        for event in message:
            recorder.replay.take(event)
        spent.append([(packed - start) / GROUP * 1e6, (time.thread_time() - packed) / GROUP * 1e6])
    reading, replay = map(statistics.median, zip(*spent, strict=True))
    return {"hand_over_us": round(reading, 1), "replay_us": round(replay, 1)}


def hand_over(recorder: Recorder) -> bytes:
    """Read and pack what is queued."""
    events: list[Any] = []
    while recorder.probe.events:
        recorder._reader.read(recorder.probe.events.popleft(), events)
    return pack((EVENTS, events))


def main() -> None:
    init_none_hash(sha256)
    plugin.register()
    bench = Bench()
    hooks = plugin.hooks()
    assert hooks is not None
    (recorder,) = hooks.recorders
    recorder.probe.started = True  # its thread rests while the hooks are measured
    told: list[Any] = []
    recorder._reader.trust_hashes("sha256", hash_root(), told)
    for event in told:
        recorder.replay.take(event)
    gc.collect()
    gc.freeze()
    gc.disable()
    for blocks in (64, 256):
        for share in (0.0, 0.9):
            print(json.dumps(measure(bench, recorder, blocks, share)), flush=True)
    assert not recorder.status.errors, recorder.status.errors
    assert recorder.replay.ledger.totals.hit_tokens


if __name__ == "__main__":
    main()
