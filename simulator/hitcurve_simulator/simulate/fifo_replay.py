"""Rows through cache rules: a number of requests hold their blocks at once and finish in order."""

from collections import deque

from hitcurve_simulator.simulate.cache_rules import CacheRules
from hitcurve_simulator.simulate.result import ServedRequest
from hitcurve_simulator.traces import TraceRow

__all__ = ["FifoReplay"]


class FifoReplay:
    """Requests finish in the order in which they started; a chat's next turn starts after the turn before.

    A request gets room for its prompt, and with ``outputs`` for its output, when it starts, and waits until older
    ones made it.
    """

    def __init__(self, rules: CacheRules, concurrency: int, outputs: bool) -> None:
        self._rules = rules
        self._concurrency = concurrency
        self._outputs = outputs
        self._in_flight: deque[TraceRow] = deque()
        self._unknown_token = -1

    def reason_to_reject(self, row: TraceRow) -> str | None:
        """Why the row can never be served, None where it can."""
        return self._rules.reason_to_reject(row.request, self._output_tokens(row))

    def serve(self, row: TraceRow) -> ServedRequest:
        """Start a row that ``reason_to_reject`` has nothing against."""
        while len(self._in_flight) >= self._concurrency or self._turn_before_runs(row):
            self._finish_oldest()
        while (started := self._rules.start(row.request, self._output_tokens(row))) is None:
            self._finish_oldest()
        self._in_flight.append(row)
        return ServedRequest(row, row.request.prompt_tokens, started.hit_tokens)

    def drain(self) -> None:
        """Finish what is in flight."""
        while self._in_flight:
            self._finish_oldest()

    def _output_tokens(self, row: TraceRow) -> int:
        return row.output_tokens if self._outputs else 0

    def _turn_before_runs(self, row: TraceRow) -> bool:
        return row.session is not None and any(other.session == row.session for other in self._in_flight)

    def _finish_oldest(self) -> None:
        row = self._in_flight.popleft()
        tokens = self._output_tokens(row)
        output = (row.output_token_ids or self._unknown_tokens(tokens)) if tokens else ()
        self._rules.finish(row.request.request_id, output)

    def _unknown_tokens(self, count: int) -> range:
        """Tokens that occur nowhere else: an output of unknown content is shared with nobody."""
        first = self._unknown_token
        self._unknown_token -= count
        return range(first, self._unknown_token, -1)
