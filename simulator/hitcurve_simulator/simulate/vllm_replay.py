"""Rows through vLLM's cache rules, one request at a time or several that hold their blocks together."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hitcurve_engine.ledger import Ledger
from hitcurve_simulator.simulate.ledger_feed import LedgerFeed
from hitcurve_simulator.simulate.result import ServedRequest, SimulationResult
from hitcurve_simulator.traces import LineFinding, TraceRow
from hitcurve_simulator.vllm import CacheManager, RequestState, VllmRules

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
    """Requests finish in the order in which they started; a chat's next turn starts after the turn before.

    A request gets room for prompt and output when it is admitted. Of a row that brings hash ids only full
    prompt blocks take room, unless ``outputs`` is set.
    """

    def __init__(self, settings: VllmReplaySettings, isolating: bool = True) -> None:
        """``isolating``: the rows have adapters or salts, so that misses may be due to them."""
        self._settings = settings
        pool = settings.pool_blocks
        self._ledger = Ledger(settings.block_size, pool_blocks=pool, ghosts_per_block=_REMEMBER_ALL)
        self._now_s = 0.0
        self.manager = CacheManager(
            num_blocks=None if pool is None else pool + 1,
            block_size=settings.block_size,
            rules=replace(settings.rules, reserve_whole_prompt=False),
            observer=LedgerFeed(self._ledger, lambda: self._now_s, settings.block_size, isolating),
        )
        self._in_flight: deque[tuple[RequestState, TraceRow]] = deque()
        self._unknown_token = -1

    def run(self, rows: Sequence[TraceRow], on_row: Callable[[], None] = lambda: None) -> SimulationResult:
        """Replay all rows; ``on_row`` is called after each."""
        result = SimulationResult()
        for row in rows:
            self._now_s += 1.0
            if (reason := self._reason_to_reject(row)) is not None:
                result.rejected.append(LineFinding(row.line, reason))
            else:
                result.served.append(self._serve(row))
            on_row()
        while self._in_flight:
            self._finish_oldest()
        result.evicted_blocks = self.manager.pool.evictions
        result.miss_tokens = {str(reason): tokens for reason, tokens in self._ledger.totals.miss_tokens.items()}
        result.check_sum()
        result.details = self._details()
        return result

    def _serve(self, row: TraceRow) -> ServedRequest:
        while len(self._in_flight) >= self._settings.concurrency or self._turn_before_runs(row):
            self._finish_oldest()
        manager = self.manager
        state = manager.track(row.request)
        prompt, lookahead = self._room(row)
        while True:
            found = manager.lookup(state)
            if manager.admit(state, prompt - len(found) * manager.block_size, found, lookahead):
                break
            self._finish_oldest()
        state.computed_tokens = prompt
        self._in_flight.append((state, row))
        return ServedRequest(row, state.prompt_tokens, state.hit_tokens)

    def _room(self, row: TraceRow) -> tuple[int, int]:
        """Tokens of the prompt and of the output that take room. The last output token is never computed."""
        prompt = row.request.prompt_tokens
        if self._settings.outputs:
            return prompt, max(row.output_tokens - 1, 0)
        if row.request.prompt_token_ids is None:
            return prompt // self._settings.block_size * self._settings.block_size, 0
        return prompt, 0

    def _reason_to_reject(self, row: TraceRow) -> str | None:
        needed = self.manager.blocks_for(sum(self._room(row)))
        pool = self._settings.pool_blocks
        return None if pool is None or needed <= pool else f"needs {needed} blocks, pool has {pool}"

    def _turn_before_runs(self, row: TraceRow) -> bool:
        return row.session is not None and any(other.session == row.session for _, other in self._in_flight)

    def _finish_oldest(self) -> None:
        state, row = self._in_flight.popleft()
        _, lookahead = self._room(row)
        if self._settings.outputs and row.output_tokens:
            self.manager.append_output(state, row.output_token_ids or self._unknown_tokens(row.output_tokens))
            if lookahead:
                self.manager.allocate(state, lookahead)
        self.manager.finish(state)

    def _unknown_tokens(self, count: int) -> range:
        """Tokens that occur nowhere else: an output of unknown content is shared with nobody."""
        first = self._unknown_token
        self._unknown_token -= count
        return range(first, self._unknown_token, -1)

    def _details(self) -> dict[str, object]:
        statistics, totals = self.manager.statistics, self._ledger.totals
        return {
            "isolated_by": dict(totals.isolated_by),
            "engine_counters": {
                "unit": self._settings.rules.statistics_unit,
                "queries": statistics.queries,
                "hits": statistics.hits,
            },
        }
