"""The three hit rates of one engine: rate-based over several windows, request-window, cumulative.

Windows keep sums of restart-corrected increases, so a rate-based window that spans a restart or a reset is still
the ratio of what was really hit to what was really looked up; it is the epoch's cut that tells the two apart. The
request window is emptied by a restart, as the engine's own is. A reset leaves it alone unless asked: /metrics
does not tell resets, so whoever reads vLLM's counters sees the old requests leave at the pace of new ones.
"""

from collections.abc import Sequence

from hitcurve.monitor.intervals import Progress
from hitcurve.reading import RequestWindowRate, WindowRate
from hitcurve.sample import EngineSample
from hitcurve.windows import RequestWindow, TimeWindow

__all__ = ["HitRates"]

_LEAST_SPAN_S = 60.0


class HitRates:
    """Windows of one engine. Times are seconds on the monotonic clock of the samples."""

    def __init__(self, windows_s: Sequence[float], max_requests: int) -> None:
        self._windows = tuple(TimeWindow(span_s) for span_s in windows_s)
        self._requests = RequestWindow(max_requests)
        self._requests_known = False
        self._pending_queries = 0.0
        self._pending_hits = 0.0
        self._arrivals = TimeWindow(max([_LEAST_SPAN_S, *windows_s]))
        self._since_s: float | None = None

    def add(self, progress: Progress, sample: EngineSample) -> None:
        """Take what happened up to ``sample``."""
        if self._since_s is None:
            self._since_s = sample.monotonic_s
        if progress.restarts:
            self.empty_request_window()
        interval = progress.interval
        if interval is not None and interval.queries is not None and interval.hits is not None:
            for window in self._windows:
                window.add(sample.monotonic_s, interval.queries, interval.hits)
            self._pending_queries += interval.queries
            self._pending_hits += interval.hits
        if progress.requests is not None:
            self._requests_known = True
            self._arrivals.add(sample.monotonic_s, progress.requests, 0.0)
            self._add_requests(progress.requests)
        for window in (*self._windows, self._arrivals):
            window.advance(sample.monotonic_s)

    def empty_request_window(self) -> None:
        """Forget all requests, as the engine does at its reset, before those of the same update."""
        self._requests.clear()
        self._pending_queries = self._pending_hits = 0.0

    def windows(self) -> tuple[WindowRate, ...]:
        """Rate-based hit rates, in the order of the configured windows."""
        return tuple(
            WindowRate(window.span_s, window.queries, window.hits, window.hit_rate) for window in self._windows
        )

    def request_window(self, now_s: float) -> RequestWindowRate | None:
        """Request-window hit rate; ``None`` where the engine does not count requests."""
        if not self._requests_known:
            return None
        arrivals, most = self._arrivals.queries, self._requests.max_requests
        watched_s = 0.0 if self._since_s is None else now_s - self._since_s
        span_s = min(self._arrivals.span_s, watched_s)
        return RequestWindowRate(
            max_requests=most,
            requests=self._requests.requests,
            hit_rate=self._requests.hit_rate,
            lag_s=most * span_s / arrivals if arrivals > 0 and span_s > 0 else None,
        )

    def _add_requests(self, requests: float) -> None:
        """Lookups are counted before the request is; those of no counted request yet wait for theirs."""
        if requests > 0:
            self._requests.add(requests, self._pending_queries, self._pending_hits)
            self._pending_queries = self._pending_hits = 0.0
