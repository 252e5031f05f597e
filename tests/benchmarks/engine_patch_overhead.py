"""What the engine patch costs on the scheduler's thread: ``python tests/benchmarks/engine_patch_overhead.py``.

Drives the real ``KVCacheManager`` of vLLM 0.32.0, and of 0.18.1 where ``make compat`` has unpacked it, through
lookup, allocation and freeing of requests of 64 and 256 full blocks of 16 tokens, with 0 % and 90 % of the blocks
cached. Rounds of a patched and an unpatched process alternate; printed are medians in microseconds per request.
``hooks_us`` is what the engine's thread pays, with the recorder's thread at rest; ``budget_us`` is 3 µs a request
and 0.05 µs a block. ``recorder_us`` is the CPU time of the recorder's thread, which works beside the engine's.
One JSON line per case. Without ``.venv-vllm`` (``make vllm-env``) it prints why it measures nothing.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("HITCURVE_VLLM_PYTHON", REPOSITORY / ".venv-vllm" / "bin" / "python"))
TREES = REPOSITORY / ".cache" / "hitcurve" / "vllm"
WORKER = REPOSITORY / "tests" / "real_vllm" / "vllm_patch_overhead.py"
BUDGET_REQUEST_US = 3.0
BUDGET_BLOCK_US = 0.05
ROUNDS = 150
WARM_UP_ROUNDS = 60


class Worker:
    """A process with one cache manager, patched or not."""

    def __init__(self, kind: str, tree: Path | None) -> None:
        ours = [str(REPOSITORY / "engine_patch"), str(REPOSITORY)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*([str(tree)] if tree else []), *ours]),
            "VLLM_TARGET_DEVICE": "cpu",
            "HITCURVE_QUEUE_EVENTS": "1000000",
        }
        self.process = subprocess.Popen(
            [str(PYTHON), str(WORKER), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.answer("ready")

    def answer(self, start: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(start):
                return line
        sys.exit(f"{WORKER.name} ended with code {self.process.wait()}")

    def round(self, blocks: int, share: float, what: str = "measure") -> dict[str, float]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {blocks} {share}\n")
        self.process.stdin.flush()
        answer: dict[str, float] = json.loads(self.answer("{"))
        return answer

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit(f"{WORKER.name} failed")


def measure(version: str, tree: Path | None) -> None:
    patched, unpatched = Worker("patched", tree), Worker("unpatched", tree)
    for blocks in (64, 256):
        for share in (0.0, 0.9):
            pairs = []
            for number in range(WARM_UP_ROUNDS + ROUNDS):
                order = (patched, unpatched) if number % 2 else (unpatched, patched)
                answers = {worker: worker.round(blocks, share) for worker in order}
                pairs.append((answers[patched], answers[unpatched]))
            del pairs[:WARM_UP_ROUNDS]
            on = statistics.median(pair[0]["engine_us"] for pair in pairs)
            off = statistics.median(pair[1]["engine_us"] for pair in pairs)
            difference = statistics.median(pair[0]["engine_us"] - pair[1]["engine_us"] for pair in pairs)
            result = {
                "vllm": version,
                "blocks": blocks,
                "hit_share": share,
                "unpatched_us": round(off, 1),
                "patched_us": round(on, 1),
                "hooks_us": round(difference, 1),
                "budget_us": round(BUDGET_REQUEST_US + BUDGET_BLOCK_US * blocks, 1),
                "recorder_us": round(patched.round(blocks, share, "replay")["recorder_us"], 1),
            }
            print(json.dumps(result), flush=True)
    patched.end()
    unpatched.end()


def main() -> None:
    if not PYTHON.exists():
        print("nothing measured: there is no real vLLM (make vllm-env)")
        return
    measure("0.32.0", None)
    if (TREES / "0.18.1").is_dir():
        measure("0.18.1", TREES / "0.18.1")


if __name__ == "__main__":
    main()
