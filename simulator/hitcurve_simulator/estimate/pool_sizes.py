"""Pools as a user gives them, in blocks, in GiB, or as a share of the GPUs' memory, in blocks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hitcurve.errors import UsageError
from hitcurve_simulator.estimate.model_memory import GIB, KvMemory

__all__ = ["GpuMemory", "gpu_memory", "pool_sizes"]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(GiB|GB|MiB|MB|G)?\s*", re.IGNORECASE)
_BYTES = {"gib": GIB, "gb": 10**9, "g": GIB, "mib": 1024**2, "mb": 10**6, "": GIB}


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """What is left for the KV cache, in GiB on all GPUs: ``gpus`` x ``memory`` x ``utilization`` - ``weights`` -
    ``other``. The first two of one GPU, the last two of all."""

    memory_gib: float
    weights_gib: float
    utilization: float
    other_gib: float
    gpus: int

    @property
    def pool_gib(self) -> float:
        return self.gpus * self.memory_gib * self.utilization - self.weights_gib - self.other_gib


def gpu_memory(
    memory: str | None, weights: str | None, utilization: float | None, other: str | None, gpus: int
) -> GpuMemory | None:
    """The options together; None where none was given. Raises UsageError where some are missing."""
    given = {
        "--gpu-memory": memory is not None,
        "--weights": weights is not None,
        "--gpu-memory-utilization": utilization is not None,
        "--other-memory": other is not None,
    }
    if not any(given.values()):
        return None
    if memory is None or weights is None:
        first = next(option for option, there in given.items() if there)
        lacking = {"--gpu-memory SIZE (of one GPU)": memory, "--weights SIZE (of all GPUs together)": weights}
        needed = " and ".join(option for option, value in lacking.items() if value is None)
        raise UsageError(f"{first} alone says no pool: give {needed} as well.")
    return GpuMemory(
        _gib("--gpu-memory", memory),
        _gib("--weights", weights),
        0.9 if utilization is None else utilization,
        0.0 if other is None else _gib("--other-memory", other),
        gpus,
    )


def pool_sizes(
    blocks: Sequence[int],
    gib: Sequence[float],
    gpu: GpuMemory | None,
    memory: KvMemory | None,
    block_size: int,
) -> tuple[int, ...]:
    """All pools in blocks, each once. Raises UsageError."""
    wanted = [*gib, *([] if gpu is None else [gpu.pool_gib])]
    if not wanted:
        return tuple(dict.fromkeys(blocks))
    if memory is None:
        raise UsageError(
            "a pool in GiB needs the size of a token; give --model-config FILE, the model's config.json."
        )
    if gpu is not None and gpu.pool_gib <= 0:
        raise UsageError(
            f"{gpu.gpus} x {gpu.memory_gib:g} GiB x {gpu.utilization:g} leaves nothing beside "
            f"{gpu.weights_gib:g} GiB of weights; give more GPUs or memory."
        )
    sizes = list(blocks)
    for size in wanted:
        fits = memory.blocks_in(size, block_size)
        if fits < 1:
            raise UsageError(f"--pool-gib {size:g} holds no block of {block_size} tokens; give more.")
        sizes.append(fits)
    return tuple(dict.fromkeys(sizes))


def _gib(option: str, text: str) -> float:
    found = _SIZE.fullmatch(text)
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"{option} is '{text}'; give a size such as 80GiB (GiB where no unit is given).")
    return float(found[1]) * _BYTES[(found[2] or "").lower()] / GIB
