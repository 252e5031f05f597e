"""The thread that empties a probe's queue into the replay. The first lookup in a process starts it.

It works in short slices and sleeps between them, since whatever it computes holds the interpreter's lock that the
engine's own thread waits for.
"""

import atexit
import multiprocessing.util
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from time import monotonic, sleep, thread_time, time
from typing import Any, Final

from hitcurve_engine.probes.adoption import CacheShape, hash_root_fingerprint
from hitcurve_engine.probes.probe import Probe
from hitcurve_engine.recording.discovery import make_sinks
from hitcurve_engine.recording.replay import Replay
from hitcurve_engine.recording.sinks import EngineFacts, PatchStatus, Sink
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

__all__ = ["CLOSE_S", "Recorder"]

CLOSE_S: Final = 5.0
"""The whole of a shutdown: the rest of the queue, and every sink."""
POLL_S: Final = 0.05
SLICE_S: Final = 0.0001
PAUSE_S: Final = 0.0001
TICK_S: Final = 1.0

SinkMaker = Callable[[EngineFacts, Callable[[str, Exception], Any]], Sequence[Sink]]


class Recorder:
    """Queue, replay and thread of one cache manager. ``describe`` may add facts until the thread starts."""

    def __init__(
        self, shape: CacheShape, settings: Settings, switch: Switch, *, sinks: SinkMaker = make_sinks
    ) -> None:
        partly_found = shape.groups > 1 or not shape.full_attention
        self.probe = Probe(settings.queue_events, shape.hash_block_size, self.start, copies=partly_found)
        self.probe.tells_found = partly_found
        self.status = PatchStatus(errors=switch.errors)
        self._shape = shape
        self._settings = settings
        self._switch = switch
        self._make_sinks = sinks
        self._facts: dict[str, Any] = {}
        self._replay = Replay(shape, settings, switch)
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._drained = threading.Condition()
        self._close_by = float("inf")
        _follow_forks(self)

    @property
    def replay(self) -> Replay:
        """Its ledger is fed by the recorder's thread; read it after ``flush``."""
        return self._replay

    def describe(self, facts: dict[str, Any]) -> None:
        """Fields of ``EngineFacts`` that the cache manager itself does not know."""
        self._facts.update(facts)

    def start(self) -> None:
        """Bring up the thread of this process. Safe to repeat."""
        self.probe.started = True
        if self._thread is not None or self._ending.is_set():
            return
        self._thread = threading.Thread(target=self._run, name="hitcurve-recorder", daemon=True)
        self._thread.start()
        _close_at_exit(self)

    def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Wait until the queue was empty once; False where it was not in time, or no thread runs."""
        if self._thread is None:
            return not self.probe.events
        with self._drained:
            self._drained.wait_for(lambda: not self.probe.events, timeout_s)
            return self._drained.wait(timeout_s) and not self.probe.events

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Empty the queue, close the sinks, end the thread; returns in time whatever they do."""
        self._close_by = monotonic() + timeout_s
        self._ending.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def end(self) -> None:
        """Let the thread end by itself once the queue is empty, without waiting for it."""
        self._close_by = monotonic() + CLOSE_S
        self._ending.set()

    def after_fork(self) -> None:
        """In a forked child: neither the thread nor what the sinks hold came along; begin anew when needed."""
        self._thread = None
        self._ending = threading.Event()
        self._drained = threading.Condition()
        self._replay = Replay(self._shape, self._settings, self._switch)
        self.probe.events.clear()
        self.probe.started = False

    def _run(self) -> None:
        try:
            facts = self._engine_facts()
            self._replay.sinks.extend(self._make_sinks(facts, self._switch.note))
            next_tick = monotonic() + TICK_S
            while not self._ending.wait(POLL_S):
                self._drain()
                if monotonic() >= next_tick:
                    self._tick()
                    next_tick = monotonic() + TICK_S
            self._drain()
            self._tick()
        except Exception as error:
            self._switch.fail("recorder", error)
        for sink in self._replay.sinks:
            try:
                sink.close(self._close_by)
            except Exception as error:
                self._switch.note(f"{type(sink).__module__}.close", error)

    def _drain(self) -> None:
        events, feed = self.probe.events, self._replay.feed
        slice_ends = monotonic() + SLICE_S
        while events:
            feed(events.popleft())
            self.status.events += 1
            now = monotonic()
            if now >= self._close_by:
                break
            if now >= slice_ends:
                sleep(PAUSE_S)
                slice_ends = monotonic() + SLICE_S
        with self._drained:
            self._drained.notify_all()

    def _tick(self) -> None:
        status, ledger = self.status, self._replay.ledger
        status.active, status.off_reason = self._switch.active, self._switch.off_reason
        status.dropped_events = self.probe.dropped
        status.queued_events = len(self.probe.events)
        status.busy_s = thread_time()
        status.cached_keys, status.ghost_keys = ledger.cached_keys, ledger.ghost_keys
        status.duplicate_blocks, status.open_requests = ledger.duplicate_blocks, ledger.open_requests
        curve = self._replay.pool_curve
        status.pool_curve = None if curve is None else curve.sums()
        for sink in self._replay.sinks:
            try:
                sink.tick(status, ledger.totals)
            except Exception as error:
                self._switch.note(f"{type(sink).__module__}.tick", error)

    def _engine_facts(self) -> EngineFacts:
        return EngineFacts(
            block_size=self._shape.block_size,
            pool_blocks=self._shape.pool_blocks,
            groups=self._shape.groups,
            pid=os.getpid(),
            wall_offset_s=time() - monotonic(),
            hash_root=hash_root_fingerprint(),
            **self._facts,
        )


_recorders: "weakref.WeakSet[Recorder]" = weakref.WeakSet()
_following_forks = False


def _follow_forks(recorder: Recorder) -> None:
    global _following_forks
    _recorders.add(recorder)
    if not _following_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
        _following_forks = True


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder.after_fork()


def _close_at_exit(recorder: Recorder) -> None:
    """Children of multiprocessing may end without atexit; they run its finalizers instead."""
    closing = weakref.WeakMethod(recorder.close)

    def close() -> None:
        method = closing()
        if method is not None:
            method()

    atexit.register(close)
    multiprocessing.util.Finalize(None, close, exitpriority=100)
