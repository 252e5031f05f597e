"""The worker of tests/benchmarks/engine_patch_end_to_end.py; runs in the environment of a real vLLM.

Everything is in this one process: scheduler, model, the threads of the patch. Slices with the wrappers in place
and with the originals alternate: between two processes the layout of memory alone differs by more than 1 %.
Before each slice the cache is reset and the pool filled, both unmeasured, so that misses evict and the ledger
knows every block.
"""

import argparse
import gc
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from vllm import LLM, SamplingParams

from hitcurve_engine import plugin
from hitcurve_engine.probes.install import Hooks
from hitcurve_engine.recording.recorder import Recorder
from hitcurve_engine.spans.span_counts import span_counts

BLOCK_SIZE = 32
POOL_BLOCKS = 192
PROMPT_BLOCKS = 16
OUTPUT_TOKENS = 4
REQUESTS = 24
FLUSH_S = 60.0
names = count()
dice = random.Random(1)


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice: seconds of wall time, CPU seconds of the engine's thread and of the patch's own."""

    wall_s: float
    cpu_s: float
    patch_cpu_s: float
    queued_events: int
    """Left to the recorder when the last request was done."""


class Bench:
    """One engine, with the hooks of its process and its recorder."""

    def __init__(self, model: str) -> None:
        plugin.register()
        self.llm = LLM(
            model=model,
            enforce_eager=True,
            max_model_len=1024,
            block_size=BLOCK_SIZE,
            num_gpu_blocks_override=POOL_BLOCKS + 1,
            max_num_seqs=8,
            distributed_executor_backend="uni",
            disable_log_stats=False,
        )
        hooks = plugin.hooks()
        assert hooks is not None
        self.hooks: Hooks = hooks
        (self.recorder,) = hooks.recorders
        self.patches = [patch for patch in hooks._patches if patch.name != "__init__"]

    def switch(self, on: bool) -> None:
        for patch in self.patches:
            setattr(patch.owner, patch.name, patch.wrapper if on else patch.original)

    def serve(self, prompts: list[list[int]]) -> None:
        """Serve them all, from tokens to tokens."""
        engine = self.llm.llm_engine
        for tokens in prompts:
            parameters = SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0, ignore_eos=True, detokenize=False)
            engine.add_request(f"r{next(names)}", {"prompt_token_ids": tokens}, parameters)
        while engine.has_unfinished_requests():
            engine.step()

    def slice(self, on: bool, shared: list[int]) -> Slice:
        """Reset, fill the pool, then measure."""
        self.switch(True)
        assert self.llm.reset_prefix_cache()
        self.switch(on)
        self.serve([new_prompt([]) for _ in range(POOL_BLOCKS // PROMPT_BLOCKS + 2)])
        if shared:
            self.serve([new_prompt(shared)])
        prompts = [new_prompt(shared) for _ in range(REQUESTS)]
        assert self.recorder.flush(FLUSH_S)
        patch_began, cpu_began, began = patch_cpu_s(), time.thread_time(), time.perf_counter()
        self.serve(prompts)
        wall_s, cpu_s = time.perf_counter() - began, time.thread_time() - cpu_began
        queued = len(self.recorder.probe.events)
        assert self.recorder.flush(FLUSH_S)
        return Slice(wall_s, cpu_s, patch_cpu_s() - patch_began, queued)


def new_prompt(shared: list[int]) -> list[int]:
    own = PROMPT_BLOCKS * BLOCK_SIZE + 1 - len(shared)
    return [*shared, *(dice.randrange(3, 250) for _ in range(own))]


def patch_cpu_s() -> float:
    """CPU seconds so far of the threads of the patch."""
    return sum(
        time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        for thread in threading.enumerate()
        if thread.name.startswith("hitcurve-") and thread.ident is not None
    )


def interval(values: list[float]) -> list[float]:
    """The median with its 95 % interval by order statistics."""
    ordered = sorted(values)
    reach = int(0.98 * len(ordered) ** 0.5) + 1
    middle = len(ordered) // 2
    low, high = ordered[max(middle - reach, 0)], ordered[min(middle + reach, len(ordered) - 1)]
    return [round(value, 4) for value in (statistics.median(ordered), low, high)]


def quiet(slices: list[Slice]) -> float:
    """Wall time of the slices that were least disturbed: what else runs can only make one longer."""
    return statistics.quantiles((one.wall_s for one in slices), n=10)[0]


def measure(bench: Bench, share: float, pairs: int) -> dict[str, Any]:
    """Pairs of slices, patched and unpatched, in turns."""
    shared = new_prompt([])[: round(PROMPT_BLOCKS * share) * BLOCK_SIZE]
    taken: dict[bool, list[Slice]] = {True: [], False: []}
    for number in range(-2, pairs):
        for on in (True, False) if number % 2 else (False, True):
            one = bench.slice(on, shared)
            if number >= 0:
                taken[on].append(one)
    bench.switch(True)
    both = list(zip(taken[False], taken[True], strict=True))
    off, on = taken[False], taken[True]
    return {
        "hit_share": share,
        "pairs": pairs,
        "requests_per_slice": REQUESTS,
        "unpatched_requests_per_s": round(REQUESTS / statistics.median(one.wall_s for one in off), 1),
        "throughput_ratio": interval([without.wall_s / patched.wall_s for without, patched in both]),
        "quiet_throughput_ratio": round(quiet(off) / quiet(on), 4),
        "unpatched_engine_cpu_us": round(statistics.median(one.cpu_s for one in off) / REQUESTS * 1e6),
        "engine_cpu_ratio": interval([without.cpu_s / patched.cpu_s for without, patched in both]),
        "patch_threads_us": round(statistics.median(one.patch_cpu_s for one in on) / REQUESTS * 1e6, 1),
        "patch_threads_us_unpatched": round(statistics.median(one.patch_cpu_s for one in off) / REQUESTS * 1e6, 1),
        "most_queued_events": max(one.queued_events for one in on),
    }


def closing(bench: Bench) -> Iterator[tuple[str, Any]]:
    """How long the end takes, and what became of everything."""
    recorder: Recorder = bench.recorder
    facts = recorder._engine_facts()
    began = time.monotonic()
    plugin.unregister()
    yield "closed_s", round(time.monotonic() - began, 2)
    yield "errors", recorder.status.errors
    yield "dropped_events", recorder.probe.dropped
    totals = recorder.replay.ledger.totals
    yield "requests_seen", totals.requests
    yield "hit_rate_seen", round(totals.hit_tokens / totals.query_tokens, 3)
    counts = span_counts(facts)
    if counts is not None:
        yield "spans_submitted", counts.submitted
        yield "spans_exported", counts.exported
        yield "spans_dropped", counts.dropped
        yield "spans_accounted", counts.exported + counts.sampled_out + sum(counts.dropped.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--shares", type=float, nargs="+", required=True)
    options = parser.parse_args()
    bench = Bench(options.model)
    gc.collect()
    gc.freeze()
    for share in options.shares:
        print(json.dumps(measure(bench, share, options.pairs)), flush=True)
    print(json.dumps(dict(closing(bench))), flush=True)
    if bench.recorder.status.errors:
        sys.exit(f"the patch had errors, nothing above counts: {bench.recorder.status.errors}")


if __name__ == "__main__":
    main()
