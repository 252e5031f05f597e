"""The engines' own caches that our rules are compared with: what they need and which sequences they get."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radix_sequences import random_runs as radix_runs
from radix_sequences import workload_runs as radix_workloads

__all__ = ["ORACLES", "REPOSITORY", "Oracle"]

REPOSITORY = Path(__file__).resolve().parents[3]
CACHE = REPOSITORY / ".cache" / "hitcurve"
PACKAGES = CACHE / "oracles" / "packages"
SGLANG = CACHE / "oracles" / "sglang-0.5.22"

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


ORACLES = {oracle.name: oracle for oracle in (_sglang("legacy"), _sglang("python"), _sglang("rust"))}
