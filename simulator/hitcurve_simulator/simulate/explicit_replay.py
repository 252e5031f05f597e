"""Rows through explicit breakpoints: one at the end of the last full block of each prompt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hitcurve_simulator.explicit import Breakpoint, ExplicitCache, Lifetime, Multipliers, Prompt, Usage
from hitcurve_simulator.simulate.result import ServedRequest, SimulationResult
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.vllm import InterningHasher, RequestState
from hitcurve_simulator.vllm.block_keys import extend_keys

__all__ = ["ExplicitReplay", "ExplicitSettings"]

# Extra keys in the form of vLLM's newest version: what they keep apart is the same.
_VERSION = (1 << 20,)


@dataclass(frozen=True, slots=True)
class ExplicitSettings:
    """``prices`` None: no cost is told."""

    block_size: int
    minimum_tokens: int = 1024
    lifetime: Lifetime = "5m"
    prices: Multipliers | None = None


class ExplicitReplay:
    """Serial replay at the times of the rows; a row without one follows at once. A trace does not tell content
    blocks, so a lookup goes back over the whole prompt. Miss reasons: ``compulsory``, ``expired`` and ``tail`` for
    what lies behind the breakpoint."""

    def __init__(self, settings: ExplicitSettings) -> None:
        self._settings = settings
        self._cache = ExplicitCache(settings.minimum_tokens, lookback=None)
        self._hasher = InterningHasher()

    def run(self, rows: Sequence[TraceRow], on_row: Callable[[], None] = lambda: None) -> SimulationResult:
        """Replay all rows; ``on_row`` is called after each."""
        result, total, now = SimulationResult(), Usage(), 0.0
        for row in rows:
            now = max(now, row.arrival_s or 0.0)
            usage = self._cache.request(self._prompt(row), now)
            total += usage
            result.served.append(ServedRequest(row, usage.tokens, usage.read))
            on_row()
        expired = self._cache.expired_tokens
        written = total.write_5m + total.write_1h
        result.miss_tokens = {"compulsory": written - expired, "expired": expired, "tail": total.plain}
        result.check_sum()
        result.details = {"usage": self._as_json(total), "compared_with_the_service": False}
        return result

    def _prompt(self, row: TraceRow) -> Prompt:
        size, state = self._settings.block_size, RequestState(row.request)
        extend_keys(self._hasher, state, size, _VERSION)
        ends = [(block + 1) * size for block in range(len(state.keys))]
        last = (Breakpoint(len(ends) - 1, self._settings.lifetime),) if ends else ()
        return Prompt(state.keys, ends, row.request.prompt_tokens, last)

    def _as_json(self, usage: Usage) -> dict[str, Any]:
        prices = self._settings.prices
        return {
            "cache_read_tokens": usage.read,
            "cache_write_5m_tokens": usage.write_5m,
            "cache_write_1h_tokens": usage.write_1h,
            "plain_tokens": usage.plain,
            "cost_in_plain_tokens": None if prices is None else usage.cost(prices),
            "cost_without_cache": None if prices is None else usage.tokens,
        }
