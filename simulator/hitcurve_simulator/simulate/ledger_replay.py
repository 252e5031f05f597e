"""Rows through the cache rules of an engine, with the reason of every missed token."""

from collections.abc import Callable, Sequence

from hitcurve_engine.ledger import Ledger
from hitcurve_simulator.simulate.cache_rules import CacheRules
from hitcurve_simulator.simulate.fifo_replay import FifoReplay
from hitcurve_simulator.simulate.ledger_feed import LedgerFeed
from hitcurve_simulator.simulate.result import SimulationResult
from hitcurve_simulator.traces import LineFinding, TraceRow
from hitcurve_simulator.vllm import CacheObserver

__all__ = ["LedgerReplay"]

# The ledger forgets gone blocks beyond this many pools; a trace is finite, so nothing is ever forgotten.
_REMEMBER_ALL = 1e9


class LedgerReplay:
    """One replay; used once."""

    def __init__(
        self,
        make_rules: Callable[[CacheObserver], CacheRules],
        block_size: int,
        pool_blocks: int | None,
        concurrency: int,
        outputs: bool,
        isolating: bool,
    ) -> None:
        """``make_rules`` makes the rules that tell a ledger what happens. ``concurrency``: requests that hold
        blocks at once. ``isolating``: rows have adapters or salts, so that misses may be due to them."""
        self._ledger = Ledger(block_size, pool_blocks=pool_blocks, ghosts_per_block=_REMEMBER_ALL)
        self._now_s = 0.0
        self._rules = make_rules(LedgerFeed(self._ledger, lambda: self._now_s, block_size, isolating))
        self._replay = FifoReplay(self._rules, concurrency, outputs)

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
        totals = self._ledger.totals
        result.evicted_blocks = self._rules.evicted_blocks
        result.miss_tokens = {str(reason): tokens for reason, tokens in totals.miss_tokens.items()}
        result.check_sum()
        result.details = {"isolated_by": dict(totals.isolated_by), **self._rules.details()}
        return result
