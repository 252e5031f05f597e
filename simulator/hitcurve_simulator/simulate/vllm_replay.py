"""Rows through vLLM's cache rules, with the reason of every missed token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hitcurve_engine.ledger import Ledger
from hitcurve_simulator.simulate.fifo_replay import FifoReplay
from hitcurve_simulator.simulate.ledger_feed import LedgerFeed
from hitcurve_simulator.simulate.result import SimulationResult
from hitcurve_simulator.traces import LineFinding, TraceRow
from hitcurve_simulator.vllm import CacheManager, VllmRules

__all__ = ["VllmReplay", "VllmReplaySettings"]

# The ledger forgets gone blocks beyond this many pools; a trace is finite, so nothing is ever forgotten.
_REMEMBER_ALL = 1e9


@dataclass(frozen=True, slots=True)
class VllmReplaySettings:
    """``pool_blocks`` counts usable blocks, None: no limit. ``concurrency``: requests that hold blocks at once.
    ``outputs``: the output takes room, and its full blocks are cached when the request ends."""

    rules: VllmRules
    block_size: int
    pool_blocks: int | None = None
    concurrency: int = 1
    outputs: bool = False


class VllmReplay:
    """One replay; used once."""

    def __init__(self, settings: VllmReplaySettings, isolating: bool = True) -> None:
        """``isolating``: the rows have adapters or salts, so that misses may be due to them."""
        self._unit = settings.rules.statistics_unit
        pool = settings.pool_blocks
        self._ledger = Ledger(settings.block_size, pool_blocks=pool, ghosts_per_block=_REMEMBER_ALL)
        self._now_s = 0.0
        self._manager = CacheManager(
            num_blocks=None if pool is None else pool + 1,
            block_size=settings.block_size,
            # A request gets all its room at once here, and a partial prompt block of a trace takes none.
            rules=replace(settings.rules, reserve_whole_prompt=False),
            observer=LedgerFeed(self._ledger, lambda: self._now_s, settings.block_size, isolating),
        )
        self._replay = FifoReplay(self._manager, settings.concurrency, settings.outputs)

    def run(self, rows: Sequence[TraceRow], on_row: Callable[[], None] = lambda: None) -> SimulationResult:
        """Replay all rows; ``on_row`` is called after each. The ledger's seconds count rows."""
        result = SimulationResult()
        for row in rows:
            self._now_s += 1.0
            if (reason := self._replay.reason_to_reject(row)) is not None:
                result.rejected.append(LineFinding(row.line, reason))
            else:
                result.served.append(self._replay.serve(row))
            on_row()
        self._replay.drain()
        totals, statistics = self._ledger.totals, self._manager.statistics
        result.evicted_blocks = self._manager.pool.evictions
        result.miss_tokens = {str(reason): tokens for reason, tokens in totals.miss_tokens.items()}
        result.check_sum()
        result.details = {
            "isolated_by": dict(totals.isolated_by),
            "engine_counters": {"unit": self._unit, "queries": statistics.queries, "hits": statistics.hits},
        }
        return result
