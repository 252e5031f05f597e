"""Rows through a cache manager: a number of requests hold their blocks at once and finish in order."""

from collections import deque

from hitcurve_simulator.simulate.result import ServedRequest
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.vllm import CacheManager, RequestState

__all__ = ["FifoReplay"]


class FifoReplay:
    """Requests finish in the order in which they started; a chat's next turn starts after the turn before.

    A request gets room for prompt and output when it is admitted, and waits until older ones made it. Of a row
    that brings hash ids only full prompt blocks take room, unless ``outputs`` is set.
    """

    def __init__(self, manager: CacheManager, concurrency: int, outputs: bool) -> None:
        self._manager = manager
        self._concurrency = concurrency
        self._outputs = outputs
        self._in_flight: deque[tuple[RequestState, TraceRow]] = deque()
        self._unknown_token = -1

    def reason_to_reject(self, row: TraceRow) -> str | None:
        """Why the row can never be served, None where it can."""
        needed, usable = self._manager.blocks_for(sum(self._room(row))), self._manager.usable_blocks
        return None if usable is None or needed <= usable else f"needs {needed} blocks, pool has {usable}"

    def serve(self, row: TraceRow) -> ServedRequest:
        """Admit a row that ``reason_to_reject`` has nothing against."""
        while len(self._in_flight) >= self._concurrency or self._turn_before_runs(row):
            self._finish_oldest()
        manager = self._manager
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

    def drain(self) -> None:
        """Finish what is in flight."""
        while self._in_flight:
            self._finish_oldest()

    def _room(self, row: TraceRow) -> tuple[int, int]:
        """Tokens of the prompt and of the output that take room. The last output token is never computed."""
        prompt = row.request.prompt_tokens
        if self._outputs:
            return prompt, max(row.output_tokens - 1, 0)
        if row.request.prompt_token_ids is None:
            return prompt // self._manager.block_size * self._manager.block_size, 0
        return prompt, 0

    def _turn_before_runs(self, row: TraceRow) -> bool:
        return row.session is not None and any(other.session == row.session for _, other in self._in_flight)

    def _finish_oldest(self) -> None:
        state, row = self._in_flight.popleft()
        if self._outputs and row.output_tokens:
            self._manager.append_output(state, row.output_token_ids or self._unknown_tokens(row.output_tokens))
            if row.output_tokens > 1:
                self._manager.allocate(state, row.output_tokens - 1)
        self._manager.finish(state)

    def _unknown_tokens(self, count: int) -> range:
        """Tokens that occur nowhere else: an output of unknown content is shared with nobody."""
        first = self._unknown_token
        self._unknown_token -= count
        return range(first, self._unknown_token, -1)
