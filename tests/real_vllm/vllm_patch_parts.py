"""The worker of ``tests/benchmarks/engine_patch_end_to_end.py --parts``: which part of the patch costs what.

Slices without the patch alternate with slices in which it does its work up to one step and drops the rest; a step
includes those before. Cases are as in ``vllm_end_to_end.py``.
"""

import gc
import json
import os
import random
import signal
import statistics
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

from vllm_end_to_end import (
    BLOCK_SIZE,
    FLUSH_S,
    PROMPT_BLOCKS,
    Bench,
    interval,
    new_prompt,
    quiet_ratio,
    worker_parser,
)

from hitcurve_engine.probes.adoption import hash_root
from hitcurve_engine.recording.event_reader import EventReader
from hitcurve_engine.recording.frames import EVENTS, pack

PARTS = {
    "hooks": "the hooks, whose events are thrown away",
    "queued": "the thread that takes them off the queue",
    "read": "reading them",
    "packed": "packing what was read",
    "written": "writing it to a process that throws it away",
    "stopped": "all that the engine's process does, while the one that replays stands still",
    "all": "everything, replayed and sent",
}
WHOLE = ("stopped", "all")


class Until:
    """A target of the recorder's thread that stops after one step."""

    def __init__(self, part: str, pipe: int) -> None:
        self._part = part
        self._pipe = pipe

    def take(self, events: list[Any]) -> None:
        if self._part != "read":
            frame = pack((EVENTS, events))
            if self._part == "written":
                os.write(self._pipe, frame)


class PartBench(Bench):
    """Its recorder's thread does as much as the part says."""

    def __init__(self, model: str, output_tokens: int, dtype: str) -> None:
        super().__init__(model, output_tokens, dtype)
        self.part = "all"
        self.serve([new_prompt([]) for _ in range(2)])
        assert self.recorder.flush(FLUSH_S)
        self.events = self.recorder.probe.events
        self.reader = self.recorder._reader
        self.drain = self.recorder._drain
        self.sink = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.recorder._drain = self.drain_until  # type: ignore[method-assign]

    def serve(self, prompts: list[list[int]]) -> None:
        process = self.recorder._process
        if self.part != "stopped" or process is None:
            super().serve(prompts)
            return
        os.kill(process.pid, signal.SIGSTOP)
        try:
            super().serve(prompts)
        finally:
            os.kill(process.pid, signal.SIGCONT)

    def drain_until(self, target: Any) -> None:
        recorder = self.recorder
        if self.part in WHOLE:
            self.drain(target)
            return
        if self.part in ("hooks", "queued"):
            while recorder.probe.events:
                recorder.probe.events.popleft()
        process, recorder._process = recorder._process, None
        assert self.sink.stdin is not None
        self.drain(Until(self.part, self.sink.stdin.fileno()))
        recorder._process = process

    def use(self, part: str) -> None:
        assert self.recorder.flush(FLUSH_S)
        self.part = part
        self.recorder._reader = self.reader if part in WHOLE else self.other_reader()
        self.recorder.probe.events = deque(maxlen=0) if part == "hooks" else self.events

    def other_reader(self) -> EventReader:
        """The recording process would miss what another one has sent."""
        reader = EventReader(self.recorder._shape, self.recorder._switch, isolated=True)
        reader.trust_hashes("sha256", hash_root(), [])
        return reader


def measure(bench: PartBench, share: float, rounds: int, steps: Sequence[str]) -> None:
    shared = new_prompt([])[: round(PROMPT_BLOCKS * share) * BLOCK_SIZE]
    requests = bench.slice_requests(shared)
    slices: dict[str, list[Any]] = {part: [] for part in ("none", *steps)}
    dice = random.Random(1)
    for number in range(-1, rounds):
        for part in dice.sample(list(slices), len(slices)):
            bench.use("all" if part == "none" else part)
            one = bench.slice(part != "none", shared, requests)
            if number >= 0:
                slices[part].append(one)
    bench.use("all")
    off = slices["none"]
    for part in steps:
        on = slices[part]
        both = list(zip(off, on, strict=True))
        line = {
            "hit_share": share,
            "output_tokens": bench.output_tokens,
            "dtype": bench.dtype,
            "part": PARTS[part],
            "rounds": rounds,
            "throughput_ratio": interval([without.wall_s / patched.wall_s for without, patched in both]),
            "engine_cpu_ratio": interval([without.cpu_s / patched.cpu_s for without, patched in both]),
            "quiet_engine_cpu_ratio": quiet_ratio(off, on, lambda one: one.cpu_s),
            "threads_us": round(statistics.median(one.threads_cpu_s for one in on) / requests * 1e6, 1),
        }
        print(json.dumps(line), flush=True)


def main() -> None:
    parser = worker_parser()
    parser.add_argument("--steps", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    bench = PartBench(options.model, options.output_tokens, options.dtype)
    gc.collect()
    gc.freeze()
    for share in options.shares:
        measure(bench, share, options.pairs, options.steps)
    if bench.recorder.status.errors:
        sys.exit(f"the patch had errors, nothing above counts: {bench.recorder.status.errors}")


if __name__ == "__main__":
    main()
