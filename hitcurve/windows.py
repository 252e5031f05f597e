"""Hit rates over windows: the last N requests, and the last S seconds. Always ratio of sums.

Running sums are exact, since counters are whole numbers below 2**53. An engine that counts fractions may leave a
rest of rounding, which never makes a sum negative.
"""

from array import array
from typing import Final

__all__ = ["RequestWindow", "TimeWindow"]

_WIDTH: Final = 3
_WORTH_MOVING: Final = 64 * _WIDTH


class RequestWindow:
    """Hit rate over the last requests, as vLLM's log line "Prefix cache hit rate" computes it.

    Updates arrive in batches of requests and leave in the same batches. As vLLM 0.32 does it
    (``vllm/v1/metrics/stats.py``), an update without requests is not taken, and old updates leave until at most
    ``max_requests`` requests remain, but the newest always stays. ``one_pop=True`` is the behaviour of vLLM
    0.8.5 (``vllm/v1/core/kv_cache_utils.py``): every update is taken, and at most one leaves per update.
    """

    def __init__(self, max_requests: int = 1000, *, one_pop: bool = False) -> None:
        if max_requests < 1:
            raise ValueError(f"max_requests must be at least 1, not {max_requests}")
        self.max_requests = max_requests
        self._one_pop = one_pop
        self._updates = _Rows()
        self._requests = 0.0
        self._queries = 0.0
        self._hits = 0.0

    def add(self, requests: float, queries: float, hits: float, *, reset: bool = False) -> None:
        """Take one update; ``reset`` says that the cache was reset before it, which empties the window first."""
        if reset:
            self.clear()
        if requests == 0 and not self._one_pop:
            return
        self._updates.append(requests, queries, hits)
        self._requests += requests
        self._queries += queries
        self._hits += hits
        if self._one_pop:
            if self._requests > self.max_requests:
                self._drop_oldest()
            return
        while len(self._updates) > 1 and self._requests > self.max_requests:
            self._drop_oldest()

    def clear(self) -> None:
        """Forget all requests."""
        self._updates.clear()
        self._requests = self._queries = self._hits = 0.0

    @property
    def requests(self) -> float:
        """Requests in the window."""
        return self._requests

    @property
    def queries(self) -> float:
        """Lookups of these requests, in the unit they were added in."""
        return self._queries

    @property
    def hits(self) -> float:
        """Hits of these requests, in the unit they were added in."""
        return self._hits

    @property
    def hit_rate(self) -> float | None:
        """hits / queries; ``None`` where nothing was looked up (vLLM prints 0.0 then)."""
        return self._hits / self._queries if self._queries > 0 else None

    def _drop_oldest(self) -> None:
        requests, queries, hits = self._updates.popleft()
        self._requests = max(0.0, self._requests - requests)
        self._queries = max(0.0, self._queries - queries)
        self._hits = max(0.0, self._hits - hits)


class TimeWindow:
    """Sums over the intervals that end within the last ``span_s`` seconds."""

    def __init__(self, span_s: float) -> None:
        if not span_s > 0:
            raise ValueError(f"a window must be longer than 0 s, not {span_s}")
        self.span_s = span_s
        self._intervals = _Rows()
        self._queries = 0.0
        self._hits = 0.0

    def add(self, end_s: float, queries: float, hits: float) -> None:
        """Take an interval that ended at ``end_s`` (seconds, on the clock that ``advance`` is given)."""
        self._intervals.append(end_s, queries, hits)
        self._queries += queries
        self._hits += hits

    def advance(self, now_s: float) -> None:
        """Drop what ended ``span_s`` or longer ago."""
        # One part in a million of slack: scrape times that are sums of decimal fractions still fall on the edge.
        oldest_s = now_s - self.span_s * (1 - 1e-6)
        while len(self._intervals) and self._intervals.first <= oldest_s:
            _, queries, hits = self._intervals.popleft()
            self._queries = max(0.0, self._queries - queries)
            self._hits = max(0.0, self._hits - hits)
        if not len(self._intervals):
            self._queries = self._hits = 0.0

    def clear(self) -> None:
        """Forget all intervals."""
        self._intervals.clear()
        self._queries = self._hits = 0.0

    @property
    def queries(self) -> float:
        """Sum over the window, in the unit that was added."""
        return self._queries

    @property
    def hits(self) -> float:
        """Sum over the window, in the unit that was added."""
        return self._hits

    @property
    def hit_rate(self) -> float | None:
        """Sum of hits / sum of queries, at most 1; ``None`` where nothing was looked up."""
        return min(self._hits / self._queries, 1.0) if self._queries > 0 else None


class _Rows:
    """A queue of three numbers each. Tuples of floats would take seven times the memory, and engines are many."""

    def __init__(self) -> None:
        self._numbers = array("d")
        self._head = 0

    def __len__(self) -> int:
        return (len(self._numbers) - self._head) // _WIDTH

    @property
    def first(self) -> float:
        """The first number of the oldest row."""
        return self._numbers[self._head]

    def append(self, one: float, two: float, three: float) -> None:
        self._numbers.extend((one, two, three))

    def popleft(self) -> tuple[float, float, float]:
        head = self._head
        one, two, three = self._numbers[head : head + _WIDTH]
        self._head = head + _WIDTH
        if self._head >= _WORTH_MOVING and 2 * self._head >= len(self._numbers):
            del self._numbers[: self._head]
            self._head = 0
        return one, two, three

    def clear(self) -> None:
        self._numbers = array("d")
        self._head = 0
