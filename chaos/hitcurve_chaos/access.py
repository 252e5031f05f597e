"""How a target may be touched beside HTTP: ``start``, ``process`` and ``docker`` of a target file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hitcurve.yaml_lines import Place

__all__ = ["DockerAccess", "StartSpec", "read_docker", "read_pid_file", "read_start"]

_MOST_REPLICAS = 8


@dataclass(frozen=True, slots=True)
class DockerAccess:
    """A container: by name or id, or by the labels that compose gives it."""

    container: str | None = None
    service: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class StartSpec:
    """An engine that the run starts for itself on this machine and ends with itself."""

    engine: Literal["simulated", "vllm"] = "simulated"
    replicas: int = 1
    block_size: int = 16
    pool_blocks: int = 1024
    seed: int = 0
    patched: bool = False
    """With the engine patch (the simulated engine: with what it would count)."""
    options: Sequence[str] = ()
    """Further words of the engine's command line."""


def read_start(place: Place) -> StartSpec:
    """The ``start`` of a target; UsageError names file, line and cure."""
    entries = place.mapping(("engine", "replicas", "block_size", "pool_blocks", "seed", "patched", "options"))
    engine = entries["engine"].text() if "engine" in entries else "simulated"
    if engine not in ("simulated", "vllm"):
        entries["engine"].wrong(f"is {engine!r}", "write simulated or vllm")
    numbers = {
        key: _count(entries[key], most)
        for key, most in (
            ("replicas", _MOST_REPLICAS),
            ("block_size", 4096),
            ("pool_blocks", 10**7),
            ("seed", 2**31),
        )
        if key in entries
    }
    options = [str(item.value) for item in entries["options"].sequence()] if "options" in entries else []
    patched = entries["patched"].flag() if "patched" in entries else False
    return StartSpec(engine=engine, options=tuple(options), patched=patched, **numbers)  # type: ignore[arg-type]


def read_docker(place: Place) -> DockerAccess:
    """The ``docker`` of a target: a ``container``, or a ``service`` and perhaps its ``project``."""
    entries = place.mapping(("container", "service", "project"))
    if ("container" in entries) == ("service" in entries):
        place.wrong("must name a 'container' or a 'service', one of them", "write 'service: vllm'")
    texts = {key: entry.text() for key, entry in entries.items()}
    return DockerAccess(**texts)


def read_pid_file(place: Place) -> Path:
    """The ``process`` of a target, with its ``pid_file``."""
    entries = place.mapping(("pid_file",))
    if "pid_file" not in entries:
        place.wrong("has no 'pid_file'", "add the file with the engine's process id")
    return Path(entries["pid_file"].text())


def _count(place: Place, most: int) -> int:
    value = place.value
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        place.wrong(f"is {value!r}", f"give a whole number up to {most}")
    return int(value)
