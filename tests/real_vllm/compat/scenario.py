"""The recipe scenario on the real ``KVCacheManager`` of whichever vLLM release is first on PYTHONPATH.

Runs in the environment of a real vLLM: ``python scenario.py patched|unpatched plugin|scheduler-cls``. It needs no
GPU and no compiled part of vLLM, and is written for every release from 0.8.5 on: what a constructor does not know
it is not given. Prints one JSON object: the answers of the manager, its own counters and evictions, and, patched,
what the ledger says and which methods returned another object than the original's.

Longer than 300 lines because it runs as one file in environments that hold nothing of ours.
"""

import dataclasses
import functools
import inspect
import json
import marshal
import os
import sys
import time
from typing import Any

BLOCK_SIZE = 16


class Engine:
    """One manager with ``usable`` blocks, driven the way vLLM's scheduler drives it."""

    def __init__(self, usable: int) -> None:
        import torch
        from vllm.v1.core.block_pool import BlockPool
        from vllm.v1.core.kv_cache_manager import KVCacheManager
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

        spec = with_known(
            FullAttentionSpec,
            block_size=BLOCK_SIZE,
            num_kv_heads=1,
            head_size=8,
            dtype=torch.float32,
            use_mla=False,
        )
        group = KVCacheGroupSpec(["layer"], spec)
        config = with_known(
            KVCacheConfig, num_blocks=usable + 1, kv_cache_groups=[group], kv_cache_tensors=[], tensors={}
        )
        self.evicted = 0
        self.manager = with_known(
            KVCacheManager,
            kv_cache_config=config,
            max_model_len=4096,
            enable_caching=True,
            log_stats=True,
            caching_hash_algo="sha256",
            hash_block_size=BLOCK_SIZE,
            scheduler_block_size=BLOCK_SIZE,
        )
        self.takes_admitted = (
            "num_new_computed_tokens" in inspect.signature(KVCacheManager.allocate_slots).parameters
        )
        self.hasher = block_hasher()
        evict = BlockPool._maybe_evict_cached_block

        def counting(block: Any) -> Any:
            gone = evict(self.manager.block_pool, block)
            self.evicted += bool(gone)
            return gone

        self.manager.block_pool._maybe_evict_cached_block = counting

    def request(self, name: str, tokens: list[int], *, salt: str | None = None, skip: bool = False) -> Any:
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        return with_known(
            Request,
            request_id=name,
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=16, **({"prompt_logprobs": 1} if skip else {})),
            pooling_params=None,
            eos_token_id=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=salt,
            block_hasher=self.hasher,
            mm_features=None,
            multi_modal_inputs=None,
            multi_modal_kwargs=None,
            multi_modal_hashes=None,
            multi_modal_placeholders=None,
        )

    def admit(self, request: Any) -> Any:
        """Hit tokens and new blocks; ``None`` where there is no room."""
        from vllm.v1.request import RequestStatus

        found = self.manager.get_computed_blocks(request)
        blocks, hit = found[0], found[1]
        tokens = request.num_tokens - hit
        if self.takes_admitted:
            allocated = self.manager.allocate_slots(
                request, tokens, num_new_computed_tokens=hit, new_computed_blocks=blocks
            )
        else:
            allocated = self.manager.allocate_slots(request, tokens, blocks)
        if allocated is None:
            return None
        if hasattr(self.manager, "record_prefix_cache_stats"):
            self.manager.record_prefix_cache_stats(request, hit)
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = request.num_tokens
        new = getattr(allocated, "blocks", allocated)
        new = new[0] if new and isinstance(new[0], list | tuple) else new
        return [hit, len(new)]

    def decode(self, request: Any, tokens: list[int]) -> bool:
        request.append_output_token_ids(tokens)
        allocated = self.manager.allocate_slots(request, len(tokens))
        request.num_computed_tokens += len(tokens)
        return allocated is not None

    def finish(self, request: Any) -> None:
        from vllm.v1.request import RequestStatus

        request.status = RequestStatus.FINISHED_STOPPED
        self.manager.free(request)
        if hasattr(self.manager, "free_block_hashes"):
            self.manager.free_block_hashes(request)

    def preempt(self, request: Any) -> None:
        from vllm.v1.request import RequestStatus

        self.manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        if hasattr(request, "num_preemptions"):
            request.num_preemptions += 1

    def counters(self) -> dict[str, int]:
        stats = self.manager.make_prefix_cache_stats()
        return {"queries": stats.queries, "hits": stats.hits}


def with_known(factory: Any, **options: Any) -> Any:
    """Call with those options that the factory knows."""
    target = factory.__init__ if inspect.isclass(factory) else factory
    known = inspect.signature(target).parameters
    return factory(**{name: value for name, value in options.items() if name in known})


def block_hasher() -> Any:
    """The request's hasher, from 0.10.1 on; before, the manager hashes."""
    from vllm.v1.core import kv_cache_utils

    if not hasattr(kv_cache_utils, "get_request_block_hasher"):
        return None
    try:
        from vllm.utils.hashing import sha256
    except ImportError:
        from vllm.utils import sha256
    kv_cache_utils.init_none_hash(sha256)
    return kv_cache_utils.get_request_block_hasher(BLOCK_SIZE, sha256)


def play(engine: Engine) -> dict[str, Any]:
    """Every answer of the manager, by name."""
    answers: dict[str, Any] = {}
    shared = list(range(69))
    a, b = engine.request("a", shared), engine.request("b", shared)
    answers["first request"], answers["equal request"] = engine.admit(a), engine.admit(b)
    answers["exact blocks"] = engine.admit(c := engine.request("c", shared[:64]))
    answers["refused reset"] = engine.manager.reset_prefix_cache()
    for request in (a, b, c):
        engine.finish(request)
    d = engine.request("d", list(range(1000, 1144)))
    answers["large request"] = engine.admit(d)
    answers["evicted by it"] = engine.evicted
    answers["no room"] = [engine.admit(e := engine.request("e", list(range(2000, 2080)))) for _ in range(3)]
    engine.preempt(d)
    answers["resumed"] = engine.admit(d)
    answers["decoded"] = engine.decode(d, list(range(16)))
    engine.finish(d)
    answers["after waiting"] = engine.admit(e)
    engine.finish(e)
    answers["evicted prefix"] = engine.admit(f := engine.request("f", shared))
    engine.finish(f)
    answers["skipped"] = engine.admit(g := engine.request("g", shared, skip=True))
    engine.finish(g)
    answers["reset"] = engine.manager.reset_prefix_cache()
    answers["after reset"] = engine.admit(h := engine.request("h", shared))
    engine.finish(h)
    answers["evicted"] = engine.evicted
    answers["counters"] = engine.counters()
    return answers


METHODS = (
    *("get_computed_blocks", "allocate_slots", "free", "reset_prefix_cache"),
    *("get_new_blocks", "cache_full_blocks"),
)


def wrap_everybody(inside: bool, seen: list[Any], others: list[str]) -> None:
    """Other people's wrappers: ``inside`` ours each notes what it returns, outside each compares."""
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    for owner in (KVCacheManager, BlockPool):
        for name in METHODS:
            original = getattr(owner, name, None)
            if original is None or (owner is BlockPool and name == "reset_prefix_cache"):
                continue

            def wrapper(*args: Any, original: Any = original, name: str = name, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                if inside:
                    seen.append(result)
                elif seen.pop() is not result:
                    others.append(name)
                return result

            setattr(owner, name, functools.wraps(original)(wrapper))


def load(way: str) -> None:
    """Bring the patch in as an engine does."""
    if way == "scheduler-cls":
        import hitcurve_engine.scheduler

        assert hitcurve_engine.scheduler.Scheduler.__module__.startswith("vllm.")
    else:
        from vllm.plugins import load_general_plugins

        load_general_plugins()


def ledger_says(outcomes: list[Any]) -> dict[str, Any]:
    from hitcurve_engine import plugin

    hooks = plugin.hooks()
    assert hooks is not None
    (recorder,) = hooks.recorders
    assert recorder.flush()
    return {
        **dataclasses.asdict(recorder.replay.ledger.totals),
        "active": recorder.replay._switch.active,
        "errors": recorder.replay._switch.errors,
        "lookups": {outcome.request_id: outcome.lookups for outcome in outcomes},
        "sums_right": all(
            outcome.query_tokens == outcome.hit_tokens + sum(outcome.miss_tokens.values())
            for outcome in outcomes
            if outcome.status == "looked_up"
        ),
    }


class Outcomes:
    """A sink that keeps the outcomes."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def request_finished(self, finished: Any) -> None:
        self.kept.append(finished.outcome)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def replay_packed(recorder: Any) -> None:
    """Let every event go through the bytes that another process would be sent."""
    from hitcurve_engine.recording.frames import EVENTS, pack

    take = recorder._host.take
    recorder._host.take = lambda events: take(marshal.loads(pack((EVENTS, events))[4:])[1])


def main() -> None:
    kind, way = sys.argv[1:]
    if kind == "unpatched":
        print(json.dumps({"answers": play(Engine(10))}))
        return
    # The ledger is looked at here, so a thread of this process must be what replays.
    os.environ["HITCURVE_OWN_PROCESS"] = "off"
    seen: list[Any] = []
    others: list[str] = []
    wrap_everybody(True, seen, others)
    load(way)
    wrap_everybody(False, seen, others)
    from hitcurve_engine import plugin

    hooks = plugin.hooks()
    assert hooks is not None, "the patch was not loaded"
    engine = Engine(10)
    sink = Outcomes()
    hooks.recorders[0]._make_sinks = lambda facts, on_error: [sink]
    replay_packed(hooks.recorders[0])
    answers = play(engine)
    result = {
        "answers": answers,
        "ledger": ledger_says(sink.kept),
        "other_objects": others,
        "hooks": [name for name in hooks.patched if not name.endswith("__init__") and "Scheduler" not in name],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
