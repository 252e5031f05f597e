"""What the doctor sees of a replica: records without any judgement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hitcurve.sample import EngineSample

__all__ = ["RESET_PATH", "Engine", "LocalProcess", "PromptLengths", "Replica"]


RESET_PATH: Final = "/reset_prefix_cache"
"""vLLM's, which exists in development mode only."""


@dataclass(frozen=True, slots=True)
class PromptLengths:
    """Prompt lengths since the engine's start: requests, tokens, and requests by upper bound in tokens."""

    requests: float
    tokens: float
    at_most: Mapping[float, float]
    """Bound to the number of requests whose prompt is at most so long."""

    def share_at_most(self, tokens: float) -> float | None:
        """Share of requests with a prompt of at most ``tokens``, from below; ``None`` without requests "
        "or bound."""
        bounds = [bound for bound in self.at_most if bound <= tokens]
        if not bounds or self.requests <= 0:
            return None
        return self.at_most[max(bounds)] / self.requests

    @property
    def mean(self) -> float | None:
        """Tokens per prompt."""
        return self.tokens / self.requests if self.requests > 0 else None


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine of a page. ``config`` holds the labels of ``vllm:cache_config_info``, empty where it has none.

    ``patch`` maps a ``hitcurve_engine_*`` sample name to its sum over labels, empty where the patch is not loaded;
    ``patch_reasons`` does so for miss tokens by reason and ``patch_pools`` for the pool curve's hits by pool.
    """

    sample: EngineSample
    config: Mapping[str, str] = field(default_factory=dict)
    prompts: PromptLengths | None = None
    patch: Mapping[str, float] = field(default_factory=dict)
    patch_reasons: Mapping[str, float] = field(default_factory=dict)
    patch_pools: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """The process that listens on the replica's port, where it runs on this machine and may be looked at."""

    pid: int
    environment: Mapping[str, str]
    listens_on: frozenset[str]
    """Addresses of its listening socket, such as ``127.0.0.1``, ``0.0.0.0`` or ``::``."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One address. Everything but the name may be unknown."""

    name: str
    loopback: bool
    """Whether the address is one of this machine's own loopback."""
    failure: str | None = None
    """Why its /metrics could not be read."""
    engines: tuple[Engine, ...] = ()
    version: str | None = None
    models: frozenset[str] | None = None
    """Base models it serves."""
    adapters: frozenset[str] | None = None
    """LoRA adapters it serves."""
    paths: frozenset[str] | None = None
    """Paths of its HTTP API."""
    process: LocalProcess | None = None

    @property
    def version_numbers(self) -> tuple[int, ...] | None:
        """``0.32.0+cpu`` as ``(0, 32, 0)``; ``None`` where it is unknown or no release."""
        parts = (self.version or "").split("+")[0].split(".")[:3]
        return tuple(map(int, parts)) if parts and all(part.isdigit() for part in parts) else None
