"""The engines' own caches that our rules are compared with: what they need and which sequences they get."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from block_sequences import random_runs as block_runs
from block_sequences import workload_runs as block_workloads
from group_sequences import random_runs as group_runs
from radix_sequences import random_runs as radix_runs
from radix_sequences import workload_runs as radix_workloads
from v0_sequences import random_runs as v0_runs
from v0_sequences import workload_runs as v0_workloads

__all__ = ["ORACLES", "REPOSITORY", "Oracle"]

REPOSITORY = Path(__file__).resolve().parents[3]
CACHE = REPOSITORY / ".cache" / "hitcurve"
PACKAGES = CACHE / "oracles" / "packages"
TRANSFORMERS = CACHE / "oracles" / "transformers-4.52.4"
SGLANG = CACHE / "oracles" / "sglang-0.5.22"

OLDEST, NEWEST = "0.8.5", "0.32.0"

Runs = Iterator[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Oracle:
    """``random`` makes runs from a first seed and a count, ``workloads`` runs of A to F from a seed."""

    name: str
    program: str
    python_path: tuple[Path, ...]
    random: Callable[[int, int], Runs]
    workloads: Callable[[int], Runs]

    @property
    def missing(self) -> str | None:
        """The first folder that is not there yet."""
        return next((str(folder) for folder in self.python_path if not folder.is_dir()), None)


def _sglang(core: str) -> Oracle:
    return Oracle(
        f"sglang-0.5.22-{core}",
        "sglang_cache.py",
        (SGLANG, PACKAGES),
        lambda seed, count: radix_runs(core, seed, count),
        lambda seed: radix_workloads(core, seed),
    )


def _vllm(version: str) -> Oracle:
    tree = CACHE / "vllm" / version
    # The newest one is what the environment itself holds; the oldest one needs an older library.
    paths = {NEWEST: (), OLDEST: (tree, TRANSFORMERS, PACKAGES)}
    return Oracle(
        f"vllm-{version}",
        "vllm_v1_manager.py",
        paths.get(version, (tree, PACKAGES)),
        lambda seed, count: block_runs(version, seed, count),
        lambda seed: block_workloads(version, seed),
    )


def _vllm_groups(version: str) -> Oracle:
    one_group = _vllm(version)
    return replace(
        one_group,
        name=f"vllm-groups-{version}",
        random=lambda seed, count: group_runs(version, seed, count),
        workloads=lambda seed: iter(()),
    )


_V0 = Oracle(
    "vllm-v0-0.8.5",
    "vllm_v0_manager.py",
    (CACHE / "vllm" / OLDEST, TRANSFORMERS, PACKAGES),
    v0_runs,
    v0_workloads,
)

_VLLM = tuple(map(_vllm, (OLDEST, "0.18.1", "0.22.1", "0.24.0", "0.29.0", NEWEST)))
_GROUPS = tuple(map(_vllm_groups, ("0.24.0", "0.29.0", NEWEST)))
ORACLES = {
    oracle.name: oracle
    for oracle in (*_VLLM, *_GROUPS, _V0, _sglang("legacy"), _sglang("python"), _sglang("rust"))
}
