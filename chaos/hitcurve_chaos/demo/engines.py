"""The engine of the demo: the simulated one, or a real vLLM on this machine's CPU."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hitcurve.child import ChildProcess
from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.demo import tiny_model
from hitcurve_chaos.demo.vllm_env import VLLM_VERSION, find_vllm_python, version_in

__all__ = ["RunningEngine", "find_tiny_model", "free_port", "start_simulated", "start_vllm"]

VLLM_START_S = 300.0
SIMULATED_START_S = 30.0


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """A started engine: its process, address, served model and the adapters a scenario may load."""

    kind: str
    process: ChildProcess
    url: str
    model: str
    version: str
    block_size: int
    arguments: tuple[str, ...]
    adapters: tuple[tuple[str, str], ...]
    """(name, path) of each."""


def start_simulated(
    log: Path, *, block_size: int, pool_blocks: int, seed: int, options: Sequence[str] = (), port: int = 0
) -> RunningEngine:
    """Start ``hitcurve engine`` on a port (0: a free one) and wait until it listens."""
    model = "simulated"
    arguments = (
        *("--rules", "vllm", "--host", "127.0.0.1", "--port", str(port), "--model", model),
        *("--block-size", str(block_size), "--pool-blocks", str(pool_blocks), "--seed", str(seed)),
        *("--max-model-len", "4096", "--max-num-seqs", "16", "--max-loras", "4"),
        *options,
    )
    process = ChildProcess("the simulated engine", [sys.executable, "-m", "hitcurve", "engine", *arguments], log)
    try:
        url = process.start().wait_listening(SIMULATED_START_S)
    except BaseException:
        process.stop()
        raise
    adapters = tuple((name, f"simulated/{name}") for name in tiny_model.ADAPTERS)
    return RunningEngine("sim", process, url, model, VLLM_VERSION, block_size, arguments, adapters)


def start_vllm(
    log: Path,
    *,
    block_size: int,
    pool_blocks: int,
    seed: int,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    niceness: int = 0,
    port: int = 0,
) -> RunningEngine:
    """Start a real vLLM with a tiny random model on the CPU and wait until it is healthy (about 30 s).

    The block size must be a multiple of 32 and ``pool_blocks`` counts usable blocks (vLLM reserves one more).
    ``variables`` are added to the server's environment.
    """
    python = find_vllm_python()
    models = find_tiny_model(python)
    port = port or free_port()
    model = "tiny"
    arguments = (
        *(
            "--model",
            str(models / "model"),
            "--served-model-name",
            model,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ),
        *("--max-model-len", "4096", "--block-size", str(block_size)),
        *("--num-gpu-blocks-override", str(pool_blocks + 1), "--max-num-seqs", "16", "--seed", str(seed)),
        *("--enforce-eager", "--enable-prompt-tokens-details"),
        *("--enable-lora", "--max-loras", "4", "--max-cpu-loras", "8", "--max-lora-rank", "8"),
        *options,
    )
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_TARGET_DEVICE": "cpu",
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
        **(variables or {}),
    }
    command = ["nice", "-n", str(niceness), str(python), "-m", "vllm.entrypoints.openai.api_server", *arguments]
    url = f"http://127.0.0.1:{port}"
    process = ChildProcess("vLLM", command, log, environment=environment)
    try:
        process.start().wait_healthy(f"{url}/health", VLLM_START_S)
    except BaseException:
        process.stop()
        raise
    adapters = tuple((name, str(models / "adapters" / name)) for name in tiny_model.ADAPTERS)
    version = version_in(python.parent.parent) or VLLM_VERSION
    return RunningEngine("vllm", process, url, model, version, block_size, arguments, adapters)


def find_tiny_model(python: Path) -> Path:
    """The folder with the tiny model and its adapters, made once per environment."""
    folder = python.parent.parent / "hitcurve-tiny-model"
    finished = folder / "finished"
    if not finished.exists():
        done = subprocess.run(
            [str(python), tiny_model.__file__, str(folder)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
        if done.returncode != 0:
            raise EnvironmentFailed(f"the tiny model could not be made: {done.stderr.strip().splitlines()[-1]}")
        finished.touch()
    return folder


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
