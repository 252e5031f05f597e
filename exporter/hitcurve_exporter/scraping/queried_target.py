"""One target as a query API shows it: pages put together again, taken in order of their own time."""

from collections.abc import Mapping

from hitcurve.reading import CutKind
from hitcurve_exporter.scraping.fetched import FailureReason, Fetched
from hitcurve_exporter.scraping.monitoring import Monitor
from hitcurve_exporter.scraping.watched_target import WatchedTarget

__all__ = ["QueriedTarget"]


class QueriedTarget:
    """Feeds a monitor. The times are those of Prometheus' scrapes, on both clocks."""

    def __init__(self, watched: WatchedTarget, monitor: Monitor) -> None:
        self.watched = watched
        self.silent_turns = 0
        """Turns in a row that brought no new sample."""
        self._monitor = monitor
        self._last_s = 0.0
        self._lines = 0
        self._postponed_s: float | None = None

    def take(self, pages: Mapping[float, str], duration_s: float) -> None:
        """Take the pages that are newer than what was taken before."""
        news = [at_s for at_s in sorted(pages) if at_s > self._last_s]
        self.silent_turns = 0 if news else self.silent_turns + 1
        for at_s in news:
            if at_s == news[-1] and self._is_incomplete(at_s, pages[at_s]):
                self._postponed_s = at_s
                return
            self._take_page(at_s, pages[at_s], duration_s)

    def fail(self, reason: FailureReason, detail: str) -> None:
        """Nothing can be said of now; the counters stay where they are."""
        fetched = Fetched(self._last_s, self._last_s, 0.0, failure=reason, detail=detail)
        self.watched.take(fetched, self._monitor.observe(fetched), self._monitor.episodes)

    def mark(self, kind: CutKind, at_s: float) -> None:
        """Note a cut of every engine."""
        self._monitor.mark(kind, at_s)

    def is_called(self, target: str | None, engine: str | None) -> bool:
        """Whether these are its name (or instance) and one of its engines; ``None`` means any."""
        config = self.watched.config
        if target is not None and target not in (config.name, config.url):
            return False
        return engine is None or engine in {reading.engine for reading in self.watched.readings}

    def _is_incomplete(self, at_s: float, page: str) -> bool:
        """Whether series are still missing, as they may be for a moment where samples arrive over a network."""
        return page.count("\n") < self._lines and self._postponed_s != at_s

    def _take_page(self, at_s: float, page: str, duration_s: float) -> None:
        self._last_s, self._lines = at_s, page.count("\n")
        fetched = Fetched(at_s, at_s, duration_s, 200, "text/plain; version=0.0.4", page.encode())
        readings = self._monitor.observe(fetched)
        if not any(reading.up for reading in readings):
            detail = next((reading.failure for reading in readings if reading.failure), "")
            fetched = Fetched(at_s, at_s, duration_s, 200, failure="not_metrics", detail=detail)
        self.watched.take(fetched, readings, self._monitor.episodes)
