"""What the engine patch costs on the scheduler's thread: ``python tests/benchmarks/engine_patch_overhead.py``.

Drives the real ``KVCacheManager`` of vLLM 0.32.0, and of 0.18.1 where ``make compat`` has unpacked it, through
lookup, allocation and freeing of requests of 64 and 256 full blocks of 16 tokens, with 0 % and 90 % of the blocks
cached. Patched and unpatched rounds alternate in one process; printed are medians in microseconds per request.
``hooks_us`` is what the engine's thread pays, with the recorder's thread at rest; ``budget_us`` is 3 µs a request
and 0.05 µs a block. ``recorder_us`` is the CPU time of the recorder's thread, which works beside the engine's.
One JSON line per case. Without ``.venv-vllm`` (``make vllm-env``) it prints why it measures nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("HITCURVE_VLLM_PYTHON", REPOSITORY / ".venv-vllm" / "bin" / "python"))
TREES = REPOSITORY / ".cache" / "hitcurve" / "vllm"
WORKER = REPOSITORY / "tests" / "real_vllm" / "vllm_patch_overhead.py"
BUDGET_REQUEST_US = 3.0
BUDGET_BLOCK_US = 0.05


def measure(version: str, search_path: list[Path]) -> None:
    ours = [REPOSITORY / "engine_patch", REPOSITORY]
    done = subprocess.run(
        [str(PYTHON), str(WORKER)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, [*search_path, *ours])),
            "VLLM_TARGET_DEVICE": "cpu",
            "HITCURVE_QUEUE_EVENTS": "1000000",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"vLLM {version}: {done.stderr.strip().splitlines()[-1]}")
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            result = json.loads(line)
            budget = BUDGET_REQUEST_US + BUDGET_BLOCK_US * result["blocks"]
            print(json.dumps({"vllm": version, **result, "budget_us": round(budget, 1)}), flush=True)


def main() -> None:
    if not PYTHON.exists():
        print("nothing measured: there is no real vLLM (make vllm-env)")
        return
    measure("0.32.0", [])
    if (TREES / "0.18.1").is_dir():
        measure("0.18.1", [TREES / "0.18.1", TREES.parent / "packages" / "new"])


if __name__ == "__main__":
    main()
