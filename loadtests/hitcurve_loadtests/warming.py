"""The hit rate from cold to warm to steady, in slices of equally many requests."""

from dataclasses import dataclass, field
from typing import Any

__all__ = ["WarmingCurve"]

_MOST_SLICES = 40


@dataclass(slots=True)
class WarmingCurve:
    """Sums of consecutive requests, in order of their end; at most 40 slices, which widen as the run goes on."""

    per_slice: int = 10
    slices: list[list[int]] = field(default_factory=list)
    """Requests, prompt tokens, cached tokens of each."""

    def add(self, prompt_tokens: int, cached_tokens: int, *, requests: int = 1) -> None:
        """Add a request, or several that ended together."""
        if not self.slices or self.slices[-1][0] >= self.per_slice:
            if len(self.slices) >= _MOST_SLICES:
                self._widen()
            self.slices.append([0, 0, 0])
        last = self.slices[-1]
        last[0] += requests
        last[1] += prompt_tokens
        last[2] += cached_tokens

    def as_json(self) -> list[dict[str, Any]]:
        """``[{"requests", "hit_rate"}]``: a ratio of sums each."""
        return [
            {"requests": requests, "hit_rate": hits / queries if queries else None}
            for requests, queries, hits in self.slices
        ]

    def _widen(self) -> None:
        pairs = zip(self.slices[::2], self.slices[1::2], strict=True)
        self.slices = [[one + other for one, other in zip(*pair, strict=True)] for pair in pairs]
        self.per_slice *= 2
