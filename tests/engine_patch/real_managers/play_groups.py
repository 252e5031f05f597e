"""Random requests on a real ``KVCacheManager`` with several groups, or with a sliding window alone.

``python play_groups.py KIND …`` in the environment of a real vLLM. After each request the pool's own tables are
compared with the ledger: what is cached, what was evicted, whether every hit block was known; and a scenario by
hand. Prints one JSON object with a member per kind.
"""

import dataclasses
import inspect
import json
import random
import sys
from typing import Any

import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.request import Request, RequestStatus

from hitcurve_engine import plugin
from hitcurve_engine.recording.recorder import Recorder

BLOCK_SIZE = 16
USABLE = 60
REQUESTS = 250


def specs(kind: str) -> list[Any]:
    usual: dict[str, Any] = {"num_kv_heads": 1, "head_size": 8, "dtype": torch.float32}
    full = FullAttentionSpec(block_size=BLOCK_SIZE, **usual)
    window = SlidingWindowSpec(block_size=BLOCK_SIZE, sliding_window=32, **usual)
    large = SlidingWindowSpec(block_size=2 * BLOCK_SIZE, sliding_window=64, **usual)
    kinds = {"hybrid": [full, window], "window": [window], "window-first": [window, full]}
    return {**kinds, "three": [window, full, large]}[kind]


class Engine:
    """One manager and the scheduler around it, as far as it matters here."""

    def __init__(self, kind: str) -> None:
        groups = [KVCacheGroupSpec([f"layer {place}"], spec) for place, spec in enumerate(specs(kind))]
        largest = max(group.kv_cache_spec.block_size for group in groups)
        options: dict[str, Any] = {
            "kv_cache_config": KVCacheConfig(num_blocks=USABLE + 1, kv_cache_tensors=[], kv_cache_groups=groups),
            "max_model_len": 4096,
            "enable_caching": True,
            "log_stats": True,
            "hash_block_size": BLOCK_SIZE,
            "scheduler_block_size": largest,
        }
        known = inspect.signature(KVCacheManager.__init__).parameters
        self.manager = KVCacheManager(**{name: value for name, value in options.items() if name in known})
        self.hasher = get_request_block_hasher(BLOCK_SIZE, sha256)
        self.evicted = 0

    def count_evictions(self) -> None:
        pool, evict = self.manager.block_pool, BlockPool._maybe_evict_cached_block

        def counting(block: Any) -> Any:
            gone = evict(pool, block)
            self.evicted += bool(gone)
            return gone

        pool._maybe_evict_cached_block = counting

    def request(self, name: str, tokens: list[int]) -> Any:
        return Request(
            request_id=name,
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=64),
            pooling_params=None,
            block_hasher=self.hasher,
        )

    def admit(self, request: Any) -> int | None:
        found = self.manager.get_computed_blocks(request)
        blocks, hit = found[0], found[1]
        allocated = self.manager.allocate_slots(
            request, request.num_tokens - hit, num_new_computed_tokens=hit, new_computed_blocks=blocks
        )
        if allocated is None:
            return None
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = request.num_tokens
        return int(hit)

    def decode(self, request: Any, tokens: list[int]) -> None:
        for token in tokens:
            request.append_output_token_ids([token])
            if self.manager.allocate_slots(request, 1) is None:
                return
            request.num_computed_tokens += 1

    def finish(self, request: Any) -> None:
        request.status = RequestStatus.FINISHED_STOPPED
        self.manager.free(request)

    def cached(self) -> tuple[int, int]:
        """Distinct keys, and blocks that hold one."""
        table = self.manager.block_pool.cached_block_hash_to_block._cache
        return len(table), sum(len(held) if isinstance(held, dict) else 1 for held in table.values())


class Outcomes:
    """A sink that keeps the outcomes."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def request_finished(self, finished: Any) -> None:
        self.kept.append(finished.outcome)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def replay(recorder: Recorder) -> None:
    """All that is queued."""
    plain: list[Any] = []
    while recorder.probe.events:
        recorder._reader.read(recorder.probe.events.popleft(), plain)
    for event in plain:
        recorder.replay.take(event)


def play(engine: Engine, recorder: Recorder, dice: random.Random) -> dict[str, Any]:
    families = [[dice.randrange(1 << 20) for _ in range(400)] for _ in range(4)]
    running: list[Any] = []
    differences: list[str] = []
    hits = 0
    for number in range(REQUESTS):
        tokens = dice.choice(families)[: dice.randint(10, 300)]
        if dice.random() < 0.5:
            tokens = [*tokens[: len(tokens) // 2], *(dice.randrange(1 << 20) for _ in range(dice.randint(1, 40)))]
        request = engine.request(f"r{number}", tokens)
        hit = engine.admit(request)
        if hit is None:
            engine.finish(request)
        else:
            hits += hit
            running.append(request)
            engine.decode(request, [dice.randrange(1 << 20) for _ in range(dice.randint(0, 40))])
        while running and (len(running) > 2 or hit is None):
            engine.finish(running.pop(dice.randrange(len(running))))
            hit = 0
        if number == REQUESTS // 2:
            while running:
                engine.finish(running.pop())
            assert engine.manager.reset_prefix_cache()
        replay(recorder)
        ledger = recorder.replay.ledger
        said = (ledger.cached_keys, ledger.cached_keys + ledger.duplicate_blocks, ledger.totals.evicted_blocks)
        true = (*engine.cached(), engine.evicted)
        if said != true:
            differences.append(f"r{number}: {said} instead of {true}")
    for request in running:
        engine.finish(request)
    replay(recorder)
    return {"hits": hits, "evicted": engine.evicted, "differences": differences[:5]}


def evicted_window(engine: Engine, recorder: Recorder) -> None:
    """A prefix whose full-attention blocks are all cached, and whose window blocks are not."""
    first = engine.request("long", list(range(165)))
    engine.admit(first)
    engine.finish(first)
    other = engine.request("presses", list(range(5000, 5000 + 16 * 24)))
    engine.admit(other)
    engine.finish(other)
    short = engine.request("short", [*range(100), 9999, 9998])
    engine.admit(short)
    engine.finish(short)
    replay(recorder)


def check(kind: str, seed: int | None) -> dict[str, Any]:
    """A new engine of one kind; without a seed the scenario by hand."""
    engine = Engine(kind)
    engine.count_evictions()
    hooks = plugin.hooks()
    assert hooks is not None
    recorder = hooks.recorders[-1]
    recorder.probe.started = True  # the events are replayed here, step by step
    sink: Any = Outcomes()
    recorder.replay.sinks.append(sink)
    if seed is None:
        evicted_window(engine, recorder)
        return {one.request_id: [one.hit_tokens, one.miss_tokens] for one in sink.kept}
    totals = recorder.replay.ledger.totals
    return {
        **play(engine, recorder, random.Random(seed)),
        "totals": dataclasses.asdict(totals),
        "errors": recorder.status.errors,
        "anomalies": sorted({name for one in sink.kept for name in one.anomalies}),
        "sums_right": all(
            one.query_tokens == one.hit_tokens + sum(one.miss_tokens.values())
            for one in sink.kept
            if one.query_tokens is not None
        ),
    }


def main() -> None:
    init_none_hash(sha256)
    plugin.register()
    answers = {kind: {"by_hand": check(kind, None), "random": check(kind, 1)} for kind in sys.argv[1:]}
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
