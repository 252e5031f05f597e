"""What a replay asks of a rule set, whatever engine it follows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hitcurve_simulator.simulate.result import SimulationResult
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.vllm import Request

__all__ = ["CacheRules", "Replay", "Started"]


@dataclass(frozen=True, slots=True)
class Started:
    """A request that got its room. ``hit_tokens`` is None where it may not read the cache."""

    hit_tokens: int | None


class CacheRules(Protocol):
    """A cache that serves whole requests."""

    @property
    def evicted_blocks(self) -> int:
        """Cached blocks that were given up for others, since start."""

    def reason_to_reject(self, request: Request, output_tokens: int) -> str | None:
        """Why the request fits in no pool of this size, None where it does."""

    def start(self, request: Request, output_tokens: int) -> Started | None:
        """Look the prompt up and hold room for it and the output; None where others must finish first."""

    def finish(self, request_id: str, output_token_ids: Sequence[int]) -> None:
        """End a request. The last output token is never computed."""

    def details(self) -> dict[str, Any]:
        """What only these rules can tell, as JSON values."""


class Replay(Protocol):
    """Serves the rows of a trace."""

    def run(self, rows: Sequence[TraceRow], on_row: Callable[[], None] = ...) -> SimulationResult:
        """Replay all rows; ``on_row`` is called after each."""
