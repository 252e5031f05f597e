"""TTFT of hits against misses on a real vLLM on CPU: ``python tests/benchmarks/load_ttft_hits.py``.

A random Llama of 24 million parameters answers prompts of 4,096 tokens that share none, some or nearly all of it
with the prompt before, one at a time; the TTFT of each share is put beside 1 / (1 - h), which first-order
arithmetic promises. The last run is discussed in docs/ttft.md. It needs the environment of ``make vllm-env`` and
about a minute of a quiet machine.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hitcurve.child import ChildProcess
from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.demo import tiny_model
from hitcurve_chaos.demo.vllm_env import find_vllm_python

PROMPT = 4096
BLOCK = 32
SHARED = (0, 1024, 2048, 3072, 3840, 4064)
MEASURED = 3
START_S = 120.0
MAKE_MODEL = """
import importlib.util
import sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("model", sys.argv[1])
model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model)
model.HIDDEN, model.LAYERS, model.HEADS, model.KV_HEADS = 512, 8, 8, 4
model.main(Path(sys.argv[2]))
"""


@contextmanager
def vllm(python: Path, folder: Path) -> Iterator[str]:
    """A server of the mid-size model; its URL."""
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    command = [str(python), "-c", MAKE_MODEL, tiny_model.__file__, str(folder)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [
        *("--model", str(folder / "model"), "--served-model-name", "mid", "--host", "127.0.0.1"),
        *("--port", str(port), "--max-model-len", str(PROMPT + 64), "--block-size", str(BLOCK)),
        *("--num-gpu-blocks-override", "1500", "--enforce-eager", "--enable-prompt-tokens-details"),
        *("--max-num-batched-tokens", str(PROMPT + 64)),
    ]
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", *words]
    variables = {**environment, "VLLM_TARGET_DEVICE": "cpu", "PYTHONWARNINGS": "ignore"}
    with ChildProcess("vLLM", command, folder / "vllm.log", environment=variables) as server:
        server.wait_healthy(f"http://127.0.0.1:{port}/health", START_S)
        yield f"http://127.0.0.1:{port}"


def ttft(url: str, shared: int, out: Path) -> tuple[float, list[float]]:
    """Hit rate and TTFTs of requests that share ``shared`` tokens with one before them."""
    sizes = ["--groups", "1", "--prefix-tokens", str(shared), "--suffix-tokens", str(PROMPT - shared)]
    words = ["shared-system-prompt", "--host", url, "--users", "1", "--requests", str(MEASURED + 1)]
    command = [sys.executable, "-m", "hitcurve", "load", *words, *sizes, "--output-tokens", "1", "--max-lag", "10"]
    subprocess.run([*command, "--out", str(out)], check=True, capture_output=True)
    lines = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    # The first one fills the cache.
    counted = lines[1:]
    assert all(line["prompt_tokens"] == PROMPT for line in counted)
    hits = sum(line["cached_tokens"] for line in counted)
    return hits / (PROMPT * len(counted)), [line["ttft_s"] for line in counted]


def main() -> None:
    try:
        python = find_vllm_python()
    except EnvironmentFailed as error:
        print(f"left out: {error}")
        return
    with tempfile.TemporaryDirectory() as folder, vllm(python, Path(folder)) as url:
        ttft(url, 0, Path(folder) / "first")
        print(f"prompts of {PROMPT} tokens, one at a time, {MEASURED} requests each; TTFT median (least to most)")
        whole = None
        for shared in SHARED:
            rate, times = ttft(url, shared, Path(folder) / f"shared-{shared}")
            median = statistics.median(times)
            whole = median if whole is None else whole
            least, middle, most = (f"{1e3 * time_s:.1f}" for time_s in (min(times), median, max(times)))
            print(
                f"  hit rate {rate:.4f}: {middle} ms ({least} to {most}), a miss takes {whole / median:.2f} times "
                f"as long, 1/(1-h) is {1 / (1 - rate):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
