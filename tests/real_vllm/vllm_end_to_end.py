"""The worker of tests/benchmarks/engine_patch_end_to_end.py; runs in the environment of a real vLLM.

Everything is in this one process: scheduler, model, the threads of the patch. Slices with the wrappers in place
and with the originals alternate: between two processes the layout of memory alone differs by more than 1 %.
Before each slice the cache is reset and the pool filled, both unmeasured, so that misses evict and the ledger
knows every block.
"""

import argparse
import gc
import json
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from vllm import LLM, SamplingParams

from hitcurve_engine import plugin
from hitcurve_engine.metrics.handoff import HANDOFF_VARIABLE
from hitcurve_engine.probes.install import Hooks
from hitcurve_engine.recording.recorder import Recorder

BLOCK_SIZE = 32
POOL_BLOCKS = 192
PROMPT_BLOCKS = 16
SLICE_S = 0.65
"""Longer than two pauses of the patch's thread (0.25 s)."""
PROBED_REQUESTS = 64
FLUSH_S = 60.0
COUNTERS = [
    f"hitcurve_engine_{name}_total" for name in ("requests", "query_tokens", "hit_tokens", "spans", "errors")
]
names = count()
dice = random.Random(1)


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice: seconds of wall time and CPU seconds of the engine's thread until the last request was done, CPU
    seconds of the patch's threads in this process and of the process that replays until all was replayed."""

    wall_s: float
    cpu_s: float
    threads_cpu_s: float
    replay_cpu_s: float
    queued_events: int
    """Left to the recorder when the last request was done."""


class Bench:
    """One engine, with the hooks of its process and its recorder."""

    def __init__(self, model: str, output_tokens: int, dtype: str) -> None:
        self.dtype = dtype
        self.output_tokens = output_tokens
        plugin.register()
        self.llm = LLM(
            model=model,
            dtype=dtype,
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
            parameters = SamplingParams(
                max_tokens=self.output_tokens, temperature=0, ignore_eos=True, detokenize=False
            )
            engine.add_request(f"r{next(names)}", {"prompt_token_ids": tokens}, parameters)
        while engine.has_unfinished_requests():
            engine.step()

    def slice(self, on: bool, shared: list[int], requests: int) -> Slice:
        """Reset, fill the pool, then measure."""
        self.switch(True)
        assert self.llm.reset_prefix_cache()
        self.switch(on)
        self.serve([new_prompt([]) for _ in range(POOL_BLOCKS // PROMPT_BLOCKS + 2)])
        if shared:
            self.serve([new_prompt(shared)])
        prompts = [new_prompt(shared) for _ in range(requests)]
        assert self.recorder.flush(FLUSH_S)
        replay_began, threads_began = self.replay_cpu_s(), threads_cpu_s()
        cpu_began, began = time.thread_time(), time.perf_counter()
        self.serve(prompts)
        wall_s, cpu_s = time.perf_counter() - began, time.thread_time() - cpu_began
        queued = len(self.recorder.probe.events)
        assert self.recorder.flush(FLUSH_S)
        threads_s = threads_cpu_s() - threads_began
        return Slice(wall_s, cpu_s, threads_s, self.replay_cpu_s() - replay_began, queued)

    def slice_requests(self, shared: list[int]) -> int:
        """How many requests fill a slice."""
        self.slice(False, shared, PROBED_REQUESTS)
        return round(SLICE_S / self.slice(False, shared, PROBED_REQUESTS).wall_s * PROBED_REQUESTS)

    def replay_cpu_s(self) -> float:
        """CPU seconds so far of the process that replays; 0 where a thread does."""
        process = self.recorder._process
        # Linux: the clock of another process's CPU time.
        return 0.0 if process is None else time.clock_gettime((~process.pid << 3) | 2)


def new_prompt(shared: list[int]) -> list[int]:
    own = PROMPT_BLOCKS * BLOCK_SIZE + 1 - len(shared)
    return [*shared, *(dice.randrange(3, 250) for _ in range(own))]


def threads_cpu_s() -> float:
    """CPU seconds so far of the threads of the patch in this process."""
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


def quiet(seconds: Iterable[float]) -> float:
    """Of the slices that were least disturbed: what else runs can only make one longer."""
    return statistics.quantiles(seconds, n=10)[0]


def quiet_ratio(off: list[Slice], on: list[Slice], time_of: Callable[[Slice], float]) -> float:
    return round(quiet(map(time_of, off)) / quiet(map(time_of, on)), 4)


def process_cpu_s(one: Slice) -> float:
    """All that the engine's process computes, whatever thread does."""
    return one.cpu_s + one.threads_cpu_s


def measure(bench: Bench, share: float, pairs: int) -> dict[str, Any]:
    """Pairs of slices, patched and unpatched, in turns."""
    shared = new_prompt([])[: round(PROMPT_BLOCKS * share) * BLOCK_SIZE]
    requests = bench.slice_requests(shared)
    taken: dict[bool, list[Slice]] = {True: [], False: []}

    def per_request(seconds: Iterable[float]) -> float:
        """Microseconds, the median over slices."""
        return round(statistics.median(seconds) / requests * 1e6, 1)

    for number in range(-1, pairs):
        for on in (True, False) if number % 2 else (False, True):
            one = bench.slice(on, shared, requests)
            if number >= 0:
                taken[on].append(one)
    bench.switch(True)
    both = list(zip(taken[False], taken[True], strict=True))
    off, on = taken[False], taken[True]
    return {
        "hit_share": share,
        "output_tokens": bench.output_tokens,
        "dtype": bench.dtype,
        "pairs": pairs,
        "requests_per_slice": requests,
        "unpatched_requests_per_s": round(requests / statistics.median(one.wall_s for one in off), 1),
        "throughput_ratio": interval([without.wall_s / patched.wall_s for without, patched in both]),
        "quiet_throughput_ratio": quiet_ratio(off, on, lambda one: one.wall_s),
        "unpatched_engine_cpu_us": per_request(one.cpu_s for one in off),
        "engine_cpu_ratio": interval([without.cpu_s / patched.cpu_s for without, patched in both]),
        "process_cpu_ratio": interval(
            [process_cpu_s(without) / process_cpu_s(patched) for without, patched in both]
        ),
        "quiet_process_cpu_ratio": quiet_ratio(off, on, process_cpu_s),
        "threads_us": per_request(one.threads_cpu_s for one in on),
        "threads_us_unpatched": per_request(one.threads_cpu_s for one in off),
        "replay_us": per_request(one.replay_cpu_s for one in on),
        "most_queued_events": max(one.queued_events for one in on),
    }


def closing(bench: Bench) -> Iterator[tuple[str, Any]]:
    """How long the end takes, and what became of everything."""
    recorder: Recorder = bench.recorder
    began = time.monotonic()
    plugin.unregister()
    yield "closed_s", round(time.monotonic() - began, 2)
    (written,) = Path(os.environ[HANDOFF_VARIABLE]).glob("*.json")
    families = json.loads(written.read_text())["families"]
    numbers = {name: sum(value for _, value in families.get(name, ())) for name in COUNTERS}
    yield "errors", {labels[-1]: value for labels, value in families.get("hitcurve_engine_errors_total", ())}
    yield "dropped_events", recorder.probe.dropped
    query, hit = numbers["hitcurve_engine_query_tokens_total"], numbers["hitcurve_engine_hit_tokens_total"]
    yield "requests_seen", numbers["hitcurve_engine_requests_total"]
    yield "hit_rate_seen", round(hit / query, 3)
    if "hitcurve_engine_spans_total" in families:
        dropped = {labels[-1]: value for labels, value in families["hitcurve_engine_dropped_spans_total"]}
        exported = numbers["hitcurve_engine_spans_total"]
        yield "spans_exported", exported
        yield "spans_dropped", dropped
        yield "spans_accounted", exported + sum(dropped.values())


def worker_parser() -> argparse.ArgumentParser:
    """What the benchmark hands to each of its workers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--shares", type=float, nargs="+", required=True)
    parser.add_argument("--output-tokens", type=int, required=True)
    parser.add_argument("--dtype", required=True)
    return parser


def main() -> None:
    options = worker_parser().parse_args()
    bench = Bench(options.model, options.output_tokens, options.dtype)
    gc.collect()
    gc.freeze()
    for share in options.shares:
        print(json.dumps(measure(bench, share, options.pairs)), flush=True)
    end = dict(closing(bench))
    print(json.dumps(end), flush=True)
    if end["errors"] or bench.recorder.status.errors:
        sys.exit(f"the patch had errors, nothing above counts: {end['errors']} {bench.recorder.status.errors}")


if __name__ == "__main__":
    main()
