"""Readings collected by a thread, so that none is missed while the frame is busy with a fault."""

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from hitcurve.reading import CutKind, Reading
from hitcurve_chaos.calls import Transport
from hitcurve_chaos.observe import CurveSource, ExporterSource, ScrapeSource
from hitcurve_chaos.targets import Target

__all__ = ["PolledSource", "open_source"]

_ASK_EXPORTER_EVERY_S = 0.25
_SCRAPE_EVERY_S = 1.0


class PolledSource:
    """Looks at another source again and again in a thread; ``look`` hands out one scrape at a time."""

    def __init__(self, source: CurveSource, *, every_s: float) -> None:
        self._source = source
        self._every_s = every_s
        self._scrapes: queue.SimpleQueue[Sequence[Reading]] = queue.SimpleQueue()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="curve readings", daemon=True)

    @property
    def trouble(self) -> str | None:
        return self._source.trouble

    def look(self) -> Sequence[Reading]:
        try:
            return self._scrapes.get_nowait()
        except queue.Empty:
            return ()

    @property
    def pending(self) -> bool:
        """Whether the thread is ahead of whoever looks."""
        return not self._scrapes.empty()

    def mark(self, kind: CutKind, at_s: float) -> bool:
        return self._source.mark(kind, at_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._ending.is_set():
            readings = self._source.look()
            if readings:
                self._scrapes.put(readings)
            self._ending.wait(self._every_s)


@contextmanager
def open_source(target: Target, transport: Transport) -> Iterator[CurveSource]:
    """The exporter's readings where the target names one, else the engine's own page; ends the thread."""
    if target.exporter is not None:
        source: CurveSource = ExporterSource(target, transport)
        with PolledSource(source, every_s=_ASK_EXPORTER_EVERY_S) as polled:
            yield polled
    else:
        with PolledSource(ScrapeSource(target), every_s=_SCRAPE_EVERY_S) as polled:
            yield polled
