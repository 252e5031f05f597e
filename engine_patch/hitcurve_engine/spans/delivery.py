"""The bounded queue between the recorder and the collector, and the thread that empties it.

A collector that is dead, slow or hanging costs spans, never time of the engine or the recorder.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread, get_ident
from time import monotonic, sleep, thread_time
from typing import Any, Final

from hitcurve_engine.spans.otlp import ENCODER_LOGGERS, EXPORTER_LOGGERS
from hitcurve_engine.spans.span_counts import SpanCounts
from hitcurve_engine.spans.span_maker import SpanItem, spans_of

__all__ = ["Delivery", "QueueLimits", "queue_limits"]

_log = logging.getLogger("hitcurve.engine")

_SLICE_S: Final = 0.001
_PAUSE_S: Final = 0.0001
"""After each slice of making spans: the thread that replays, or the engine's own, may need the interpreter."""
_POLL_S: Final = 0.02
_KEPT_BACK_S: Final = 0.75
"""Of the time to close, for ending the exporter and for the sinks that are closed after this one."""
_SHUTDOWN_S: Final = 0.5
_PATIENCE_S: Final = 2.0
"""How long the end waits for a collector that takes nothing."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """``OTEL_BSP_MAX_QUEUE_SIZE``, ``OTEL_BSP_MAX_EXPORT_BATCH_SIZE`` and ``OTEL_BSP_SCHEDULE_DELAY``.

    The batch is smaller than the standard's 512: encoding one holds the interpreter's lock.
    """

    queue: int = 2048
    batch: int = 64
    delay_s: float = 5.0


def queue_limits(environment: Mapping[str, str]) -> QueueLimits:
    """The limits that the environment sets; the default for what it does not, or not readably."""
    standard = QueueLimits()
    queue = _positive(environment.get("OTEL_BSP_MAX_QUEUE_SIZE")) or standard.queue
    batch = _positive(environment.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE")) or standard.batch
    delay_ms = _positive(environment.get("OTEL_BSP_SCHEDULE_DELAY")) or standard.delay_s * 1000
    return QueueLimits(queue, min(batch, queue), delay_ms / 1000)


class Delivery:
    """Takes items, sends spans. ``make`` and ``exporter`` are only used on its thread, which starts at once."""

    def __init__(
        self,
        make: Callable[[SpanItem], Sequence[Any]],
        exporter: Any,
        counts: SpanCounts,
        limits: QueueLimits,
    ) -> None:
        self._make = make
        self._exporter = exporter
        self._counts = counts
        self._limits = limits
        self._queue: deque[SpanItem] = deque()
        self._wake = Event()
        self._lock = Lock()
        self._in_flight = 0
        """Spans taken off the queue and not yet counted."""
        self._ending = False
        self._abandoned = False
        self._failing = False
        self._told = False
        self._progress_s = 0.0
        self._thread = Thread(target=self._run, name="hitcurve-spans", daemon=True)
        self._thread.start()

    def offer(self, item: SpanItem) -> None:
        """Queue an item, or drop it where the queue is full. Never waits."""
        if len(self._queue) >= self._limits.queue:
            self.refuse(item)
            return
        self._counts.submitted += spans_of(item)
        self._queue.append(item)
        if len(self._queue) >= self._limits.batch:
            self._wake.set()

    def refuse(self, item: SpanItem) -> None:
        """Count an item that there is no room for."""
        self._counts.submitted += spans_of(item)
        self._counts.dropped["queue_full"] += spans_of(item)

    def close(self, deadline_s: float) -> None:
        """Send what is queued, at most until the monotonic clock reads ``deadline_s``; what is left is dropped."""
        self._ending = True
        self._wake.set()
        give_up_s = deadline_s - _KEPT_BACK_S
        self._progress_s = monotonic()
        while self._thread.is_alive() and monotonic() < min(give_up_s, self._progress_s + _PATIENCE_S):
            self._thread.join(_POLL_S)
        with self._lock:
            self._abandoned = True
            left = self._in_flight
        while self._queue:
            left += spans_of(self._queue.popleft())
        self._counts.dropped["shutdown"] += left
        ending = Thread(target=self._end_exporter, name="hitcurve-spans-end", daemon=True)
        ending.start()
        ending.join(_SHUTDOWN_S)

    def _run(self) -> None:
        filters = {name: _FewFromThread(get_ident(), 0) for name in EXPORTER_LOGGERS}
        filters |= {name: _FewFromThread(get_ident(), 1) for name in ENCODER_LOGGERS}
        for name, few in filters.items():
            logging.getLogger(name).addFilter(few)
        _suppress_instrumentation()
        while not self._abandoned:
            self._wake.wait(self._limits.delay_s)
            self._wake.clear()
            # Read before the queue is looked at: whatever is offered comes before the end is announced.
            ending = self._ending
            while self._queue and not self._abandoned:
                self._send(self._take())
                self._counts.busy_s = thread_time()
            if ending:
                break
        for name, few in filters.items():
            logging.getLogger(name).removeFilter(few)

    def _take(self) -> list[SpanItem]:
        with self._lock:
            if self._abandoned:
                return []
            items = [self._queue.popleft() for _ in range(min(self._limits.batch, len(self._queue)))]
            self._in_flight = sum(map(spans_of, items))
        return items

    def _send(self, items: Sequence[SpanItem]) -> None:
        spans: list[Any] = []
        sampled_out = failed = 0
        slice_ends = monotonic() + _SLICE_S
        for item in items:
            try:
                made = self._make(item)
            except Exception as error:
                failed += spans_of(item)
                self._say_once("a span could not be made", error)
                continue
            spans.extend(made)
            sampled_out += spans_of(item) - len(made)
            if monotonic() >= slice_ends:
                sleep(_PAUSE_S)
                slice_ends = monotonic() + _SLICE_S
        delivered = self._export(spans) if spans else True
        with self._lock:
            if self._abandoned:
                return
            self._in_flight = 0
            self._counts.sampled_out += sampled_out
            self._counts.dropped["error"] += failed
            if delivered:
                self._progress_s = monotonic()
                self._counts.exported += len(spans)
            else:
                self._counts.dropped["not_delivered"] += len(spans)

    def _export(self, spans: Sequence[Any]) -> bool:
        try:
            delivered = bool(self._exporter.export(spans).name == "SUCCESS")
        except Exception:
            delivered = False
        if not delivered and not self._failing and not self._abandoned:
            _log.warning("hitcurve: the collector does not take spans; they are dropped and counted until it does")
        if delivered and self._failing:
            _log.info("hitcurve: the collector takes spans again")
        self._failing = not delivered
        return delivered

    def _end_exporter(self) -> None:
        try:
            self._exporter.shutdown()
        except Exception as error:
            self._say_once("the exporter could not be ended", error)

    def _say_once(self, what: str, error: Exception) -> None:
        if not self._told:
            self._told = True
            _log.warning("hitcurve: %s (%s: %s)", what, type(error).__name__, error)


class _FewFromThread(logging.Filter):
    """Keeps the SDK's own lines out of the log, one per batch or span as they are, but for the first few.

    What the exporter says we say ourselves; that something is left out of spans or cut short is said once.
    """

    def __init__(self, thread: int, most: int) -> None:
        super().__init__()
        self._thread = thread
        self._left = most

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        self._left -= 1
        return self._left >= 0


def _suppress_instrumentation() -> None:
    """Instrumented HTTP clients must not make spans of sending spans."""
    try:
        from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value

        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
    except ImportError:
        return


def _positive(text: str | None) -> int | None:
    try:
        number = int(text or "")
    except ValueError:
        return None
    return number if number > 0 else None
