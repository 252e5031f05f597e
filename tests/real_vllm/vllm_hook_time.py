"""The worker of ``tests/benchmarks/engine_patch_end_to_end.py --hooks``: what the hooks cost where they run.

Batches of 8 requests with and without the hooks alternate in random order. Only what the scheduler does is timed,
call by call; the model runs in between and drives code and data out of the processor's caches, as it does when it
serves. Of every call in the course of a batch the median over the rounds counts. No thread empties the queue.
"""

import gc
import json
import random
import statistics
import sys
from time import perf_counter
from typing import Any

from vllm_end_to_end import BLOCK_SIZE, POOL_BLOCKS, PROMPT_BLOCKS, Bench, new_prompt, worker_parser

BATCH = 8
TIMED = ("schedule", "update_from_output")
CASES = ("unpatched", "unpatched again", "hooks")


class HookBench(Bench):
    """Notes the seconds that each call of the scheduler takes; its hooks have no thread."""

    def __init__(self, model: str, output_tokens: int, dtype: str) -> None:
        super().__init__(model, output_tokens, dtype)
        probe = self.recorder.probe
        probe.started, probe.holds_requests = True, False
        self.calls: list[float] = []
        self.admitting: set[int] = set()
        """Numbers of the calls that planned the first step of a request."""
        scheduler: Any = self.llm.llm_engine.engine_core.engine_core.scheduler
        for name in TIMED:
            setattr(scheduler, name, self.timed(getattr(scheduler, name)))

    def timed(self, method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter()
            answer = method(*args, **kwargs)
            self.calls.append(perf_counter() - began)
            if getattr(answer, "scheduled_new_reqs", None):
                self.admitting.add(len(self.calls) - 1)
            return answer

        return call

    def batch(self, case: str, shared: list[int]) -> tuple[list[float], float]:
        """Seconds of each call of the scheduler, and of the whole."""
        prompts = [new_prompt(shared) for _ in range(BATCH)]
        self.switch(case == "hooks")
        self.calls, self.admitting = [], set()
        began = perf_counter()
        self.serve(prompts)
        whole_s = perf_counter() - began
        self.recorder.probe.events.clear()
        return self.calls, whole_s


def measure(bench: HookBench, share: float, rounds: int) -> dict[str, Any]:
    shared = new_prompt([])[: round(PROMPT_BLOCKS * share) * BLOCK_SIZE]
    bench.serve([new_prompt([]) for _ in range(POOL_BLOCKS // PROMPT_BLOCKS + 2)])
    bench.serve([new_prompt(shared)])
    taken: dict[str, list[list[float]]] = {case: [] for case in CASES}
    whole: list[float] = []
    planned: dict[int, set[int]] = {}
    dice = random.Random(1)
    for number in range(-1, rounds):
        for case in dice.sample(CASES, len(CASES)):
            calls, whole_s = bench.batch(case, shared)
            if number >= 0:
                taken[case].append(calls)
                planned[len(calls)] = bench.admitting
                if case == "unpatched":
                    whole.append(whole_s)
    length = statistics.mode(len(calls) for rows in taken.values() for calls in rows)
    usual = {case: [calls for calls in rows if len(calls) == length] for case, rows in taken.items()}
    median = {
        case: [statistics.median(column) for column in zip(*rows, strict=True)] for case, rows in usual.items()
    }

    def more(case: str) -> dict[str, float]:
        """Microseconds a request beyond ``unpatched``: planning its first step, the next ones, taking answers."""
        extra = [one - other for one, other in zip(median[case], median["unpatched"], strict=True)]
        first = [extra[number] for number in planned[length]]
        parts = {
            "first_step": sum(first),
            "next_steps": sum(extra[0::2]) - sum(first),
            "answers": sum(extra[1::2]),
            "all": sum(extra),
        }
        return {name: round(seconds / BATCH * 1e6, 2) for name, seconds in parts.items()}

    return {
        "hit_share": share,
        "output_tokens": bench.output_tokens,
        "dtype": bench.dtype,
        "rounds": min(map(len, usual.values())),
        "unpatched_request_us": round(statistics.median(whole) / BATCH * 1e6, 1),
        "unpatched_scheduler_us": round(sum(median["unpatched"]) / BATCH * 1e6, 1),
        "hooks_us": more("hooks"),
        "noise_us": more("unpatched again"),
    }


def main() -> None:
    options = worker_parser().parse_args()
    bench = HookBench(options.model, options.output_tokens, options.dtype)
    gc.collect()
    gc.freeze()
    for share in options.shares:
        print(json.dumps(measure(bench, share, options.pairs)), flush=True)
    if not bench.recorder._switch.active or bench.recorder.probe.dropped:
        sys.exit("the hooks had errors or a full queue, nothing above counts")


if __name__ == "__main__":
    main()
