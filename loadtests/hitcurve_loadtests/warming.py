"""The hit rate from cold to warm to steady, in slices of equally many requests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["WarmingCurve"]

_MOST_SLICES = 40


@dataclass(slots=True)
class _Slice:
    """Sums of consecutive requests; ``ended_s`` is when the last of them ended, in Unix seconds."""

    requests: int
    prompt_tokens: int
    cached_tokens: int
    ended_s: float


@dataclass(slots=True)
class WarmingCurve:
    """Consecutive requests in order of their end; at most 40 slices, which widen as the run goes on."""

    per_slice: int = 10
    slices: list[_Slice] = field(default_factory=list)

    def add(self, prompt_tokens: int, cached_tokens: int, ended_s: float, *, requests: int = 1) -> None:
        """Add a request, or several that ended one after the other."""
        if not self.slices or self.slices[-1].requests >= self.per_slice:
            if len(self.slices) >= _MOST_SLICES:
                self._widen()
            self.slices.append(_Slice(0, 0, 0, ended_s))
        last = self.slices[-1]
        last.requests += requests
        last.prompt_tokens += prompt_tokens
        last.cached_tokens += cached_tokens
        last.ended_s = ended_s

    def sums(self) -> list[tuple[int, int, int, float]]:
        """All of it in plain values, for another process."""
        return [(one.requests, one.prompt_tokens, one.cached_tokens, one.ended_s) for one in self.slices]

    def merge(self, others: Sequence[Sequence[Any]]) -> None:
        """Add the ``sums`` of another process, in order of the time at which slices ended."""
        both = sorted([*self.sums(), *map(tuple, others)], key=lambda one: one[3])
        self.slices = []
        for requests, prompt_tokens, cached_tokens, ended_s in both:
            self.add(prompt_tokens, cached_tokens, ended_s, requests=requests)

    def as_json(self) -> list[dict[str, Any]]:
        """``[{"requests", "hit_rate"}]``: a ratio of sums each."""
        return [
            {
                "requests": one.requests,
                "hit_rate": one.cached_tokens / one.prompt_tokens if one.prompt_tokens else None,
            }
            for one in self.slices
        ]

    def _widen(self) -> None:
        pairs = zip(self.slices[::2], self.slices[1::2], strict=True)
        self.slices = [
            _Slice(
                one.requests + next_.requests,
                one.prompt_tokens + next_.prompt_tokens,
                one.cached_tokens + next_.cached_tokens,
                next_.ended_s,
            )
            for one, next_ in pairs
        ]
        self.per_slice *= 2
