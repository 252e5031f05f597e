"""What a simulation found, and its JSON form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hitcurve_simulator.traces import LineFinding, TraceRow

__all__ = ["ServedRequest", "SimulationResult", "as_json"]


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """One row that was served. ``hit_tokens`` is None where it may not read the cache."""

    row: TraceRow
    query_tokens: int
    hit_tokens: int | None


@dataclass(slots=True)
class SimulationResult:
    """Sums over the served requests, in tokens; requests that may not read the cache count in ``skipped`` only."""

    served: list[ServedRequest] = field(default_factory=list)
    rejected: list[LineFinding] = field(default_factory=list)
    evicted_blocks: int = 0
    miss_tokens: Mapping[str, int] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    """What only some rules can tell, as JSON values."""

    @property
    def query_tokens(self) -> int:
        return sum(request.query_tokens for request in self.served if request.hit_tokens is not None)

    @property
    def hit_tokens(self) -> int:
        return sum(request.hit_tokens or 0 for request in self.served)

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens / query tokens; None where nothing was looked up."""
        queries = self.query_tokens
        return self.hit_tokens / queries if queries else None

    def check_sum(self) -> None:
        """Raises AssertionError unless hit tokens and miss tokens of every reason add up to the query tokens."""
        total = self.hit_tokens + sum(self.miss_tokens.values())
        if total != self.query_tokens:
            raise AssertionError(f"hits and misses are {total} tokens, queries {self.query_tokens}")


def as_json(result: SimulationResult, per_request: bool) -> dict[str, Any]:
    """The contract of ``hitcurve simulate --json``; ``hit_tokens_per_request`` in the order of the rows."""
    values: dict[str, Any] = {
        "requests": len(result.served),
        "query_tokens": result.query_tokens,
        "hit_tokens": result.hit_tokens,
        "hit_rate": result.hit_rate,
        "evicted_blocks": result.evicted_blocks,
        "miss_tokens": dict(result.miss_tokens),
        "rejected": _findings(result.rejected),
        **result.details,
    }
    skipped = [request.query_tokens for request in result.served if request.hit_tokens is None]
    values["skipped"] = {"requests": len(skipped), "tokens": sum(skipped)}
    if per_request:
        values["hit_tokens_per_request"] = [request.hit_tokens for request in result.served]
        values["arrival_s_per_request"] = [request.row.arrival_s for request in result.served]
    return values


def _findings(findings: list[LineFinding]) -> list[dict[str, Any]]:
    return [{"line": finding.line, "reason": finding.reason} for finding in findings]
