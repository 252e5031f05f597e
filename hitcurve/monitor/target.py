"""One target over time: scrapes in, one reading per engine out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, count
from typing import Final

from hitcurve.curve import CurveClassifier, Episode
from hitcurve.monitor.classifier import Classifier
from hitcurve.monitor.engine import EngineMonitor
from hitcurve.readers import PageRefused, read_page
from hitcurve.reading import Cut, CutKind, Reading
from hitcurve.sample import EngineSample
from hitcurve.scrape import Scrape

__all__ = ["TargetMonitor"]

_HTTP_OK: Final = 200
_MOST_REMEMBERED: Final = 2048


class TargetMonitor:
    """Follows all engines behind one address. Not thread-safe; scrapes come in order of time.

    ``windows_s`` are lengths of rate-based windows in seconds, ``max_requests`` that of the request window.
    ``classifier_factory`` makes one classifier per engine. ``alternating_starts`` are start times of processes
    that the address is already known to lead to in turn. A clock that goes back starts everything anew.
    """

    def __init__(
        self,
        target: str,
        *,
        windows_s: Sequence[float],
        max_requests: int = 1000,
        classifier_factory: Callable[[], Classifier] = CurveClassifier,
        resets_empty_request_window: bool = False,
        alternating_starts: Collection[float] = (),
    ) -> None:
        self.target = target
        self._windows_s = tuple(windows_s)
        self._max_requests = max_requests
        self._classifier_factory = classifier_factory
        self._resets_empty_request_window = resets_empty_request_window
        self._alternating_starts = frozenset(alternating_starts)
        self._engines: dict[frozenset[tuple[str, str]], EngineMonitor] = {}
        self._present: tuple[EngineMonitor, ...] = ()
        self._marked: list[Cut] = []
        self._last_monotonic_s: float | None = None

    @property
    def samples(self) -> Mapping[str, EngineSample]:
        """The samples of the last good page, by engine."""
        return {monitor.engine: monitor.sample for monitor in self._present if monitor.sample is not None}

    @property
    def episodes(self) -> Mapping[str, tuple[Episode, ...]]:
        """Incidents of each engine seen so far."""
        return {monitor.engine: monitor.episodes for monitor in self._engines.values()}

    @property
    def alternating_starts(self) -> frozenset[float]:
        """Start times of processes that answered in turn: the address leads to several of them."""
        return self._alternating_starts.union(*(known.alternating_starts for known in self._engines.values()))

    def mark(self, kind: CutKind, at_s: float) -> None:
        """Tell of a cut known from outside, such as a reset somebody ordered; it shows with the next good page."""
        self._marked.append(Cut(at_s, kind))

    def observe(self, scrape: Scrape) -> tuple[Reading, ...]:
        """One reading per engine of the page.

        A failed scrape gives one per engine of the last good page with ``up`` false and no rates; where no
        engine is known yet, a single one with an empty ``engine``.
        """
        if self._last_monotonic_s is not None and scrape.monotonic_s < self._last_monotonic_s:
            self._engines.clear()
            self._present = ()
        self._last_monotonic_s = scrape.monotonic_s
        try:
            samples = _read(scrape)
        except PageRefused as refused:
            return self._fail(scrape.at_s, refused.reason)
        monitors = self._monitors(samples)
        self._present = tuple(monitors)
        marked, self._marked = tuple(self._marked), []
        return tuple(monitor.observe(sample, marked) for monitor, sample in zip(monitors, samples, strict=True))

    def _fail(self, at_s: float, reason: str) -> tuple[Reading, ...]:
        if not self._present:
            return (Reading(self.target, "", at_s, up=False, failure=reason),)
        return tuple(monitor.fail(at_s, reason) for monitor in self._present)

    def _monitors(self, samples: tuple[EngineSample, ...]) -> list[EngineMonitor]:
        """The monitor of each sample: that of the same labels, else of the same name if it left the page."""
        keys = [frozenset(sample.labels.items()) for sample in samples]
        on_page = set(keys)
        if len(self._engines) > _MOST_REMEMBERED:
            self._engines = {key: known for key, known in self._engines.items() if key in on_page}
        found = []
        for key, sample in zip(keys, samples, strict=True):
            monitor = self._engines.get(key) or self._heir(sample.engine, on_page)
            if monitor is None:
                monitor = self._new(self._free_name(sample))
            self._engines[key] = monitor
            found.append(monitor)
        return found

    def _heir(self, engine: str, on_page: set[frozenset[tuple[str, str]]]) -> EngineMonitor | None:
        """An engine whose other labels changed, as a Ray worker's do at every restart."""
        for key, monitor in self._engines.items():
            if monitor.engine == engine and key not in on_page:
                del self._engines[key]
                return monitor
        return None

    def _free_name(self, sample: EngineSample) -> str:
        """A name that no engine ever had here, since totals under one name never fall."""
        taken = {monitor.engine for monitor in self._engines.values()}
        whole = "/".join(value for _, value in sorted(sample.labels.items()))
        numbered = (f"{whole}#{number}" for number in count(2))
        return next(name for name in chain((sample.engine, whole), numbered) if name not in taken)

    def _new(self, engine: str) -> EngineMonitor:
        return EngineMonitor(
            self.target,
            engine,
            windows_s=self._windows_s,
            max_requests=self._max_requests,
            classifier=self._classifier_factory(),
            resets_empty_request_window=self._resets_empty_request_window,
            alternating_starts=self._alternating_starts,
        )


def _read(scrape: Scrape) -> tuple[EngineSample, ...]:
    if scrape.error is not None:
        raise PageRefused(scrape.error)
    if scrape.status != _HTTP_OK:
        raise PageRefused(f"HTTP {scrape.status}")
    if scrape.body is None:
        raise PageRefused("the answer has no body")
    return read_page(scrape.body, scrape.content_type, at_s=scrape.at_s, monotonic_s=scrape.monotonic_s)
