"""The thread that empties a probe's queue and hands it to who replays it. The first lookup in a process starts it.

It works in short slices and sleeps between them, since whatever it computes holds the interpreter's lock that the
engine's own thread waits for; for the same reason the replay is in another process.
"""

import atexit
import logging
import multiprocessing.util
import os
import threading
import weakref
from time import monotonic, sleep, thread_time, time
from typing import Any, Final, Protocol

from hitcurve_engine.probes.adoption import CacheShape, hash_root, hash_root_fingerprint, vllm_span_attributes
from hitcurve_engine.probes.probe import Probe
from hitcurve_engine.recording.discovery import make_sinks
from hitcurve_engine.recording.event_reader import EventReader, PlainEvent
from hitcurve_engine.recording.replay import Replay
from hitcurve_engine.recording.replay_host import ReplayHost, SinkMaker
from hitcurve_engine.recording.replay_process import ReplayProcess
from hitcurve_engine.recording.sinks import EngineFacts, PatchStatus
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

__all__ = ["CLOSE_S", "Recorder"]

_log = logging.getLogger("hitcurve.engine")

CLOSE_S: Final = 5.0
"""The whole of a shutdown: the rest of the queue, and every sink."""
POLL_S: Final = 0.25
"""Shorter ones cost more: while this thread waits for the interpreter's lock, the engine's thread wakes it, mostly
in vain, each time that it gives the lock up for a moment."""
SLICE_S: Final = 0.001
PAUSE_S: Final = 0.0001
TICK_S: Final = 1.0
SETTLE_S: Final = 1.0
READ_EVENTS: Final = 16
BATCH_EVENTS: Final = 512


class _Target(Protocol):
    """Where the events are replayed: a ``ReplayHost`` of this thread or a ``ReplayProcess``."""

    def take(self, events: list[PlainEvent]) -> None: ...

    def tick(self, status: PatchStatus) -> None: ...

    def close(self, deadline_s: float) -> None: ...


class Recorder:
    """Queue and thread of one cache manager. ``describe`` may add facts until the thread starts.

    Events are replayed in a process of their own; by the thread itself where the settings say so, where that
    process cannot be started, or where ``sinks`` makes sinks of somebody's own.
    """

    def __init__(
        self, shape: CacheShape, settings: Settings, switch: Switch, *, sinks: SinkMaker | None = None
    ) -> None:
        partly_found = shape.groups > 1 or not shape.full_attention
        self.probe = Probe(settings.queue_events, self.start, copies=partly_found)
        self.probe.tells_found = partly_found
        self.status = PatchStatus(errors=switch.errors)
        self._shape = shape
        self._settings = settings
        self._switch = switch
        self._make_sinks: SinkMaker = make_sinks if sinks is None else sinks
        self._own_process = sinks is None and settings.own_process
        self._facts: dict[str, Any] = {}
        self._host = ReplayHost(shape, settings, switch)
        self._process: ReplayProcess | None = None
        self._reader = EventReader(shape, switch, isolated=settings.isolated)
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._drained = threading.Condition()
        self._asked = self._replayed = 0
        self._close_by = float("inf")
        _follow_forks(self)

    @property
    def replay(self) -> Replay:
        """Fed by the recorder's thread, unless a process of its own replays; read its ledger after ``flush``."""
        return self._host.replay

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
        """Wait until all events so far are replayed; False where they are not in time, or no thread runs."""
        if self._thread is None:
            return not self.probe.events
        with self._drained:
            self._asked += 1
            asked = self._asked
            self._wake.set()
            return self._drained.wait_for(lambda: self._replayed >= asked, timeout_s)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Empty the queue, close the sinks, end the thread; returns in time whatever they do."""
        self._close_by = monotonic() + timeout_s
        self._ending.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)
            if thread.is_alive() and self._process is not None:
                self._process.kill()

    def end(self) -> None:
        """Let the thread end by itself once the queue is empty, without waiting for it."""
        self._close_by = monotonic() + CLOSE_S
        self._ending.set()
        self._wake.set()

    def after_fork(self) -> None:
        """In a forked child: neither the thread nor what the sinks hold came along; begin anew when needed."""
        if self._process is not None:
            self._process.abandon()
            self._process = None
        self._thread = None
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._drained = threading.Condition()
        self._asked = self._replayed = 0
        self._host = ReplayHost(self._shape, self._settings, self._switch)
        self._reader = EventReader(self._shape, self._switch, isolated=self._settings.isolated)
        self.probe.events.clear()
        self.probe.holds_requests = True
        self.probe.started = False

    def _run(self) -> None:
        target: _Target = self._host
        try:
            target = self._open_target()
            self._tell_hashing(target)
            next_tick = monotonic() + TICK_S
            while not self._ending.is_set():
                self._wake.wait(POLL_S)
                self._wake.clear()
                self._drain(target)
                if monotonic() >= next_tick:
                    self._tick(target)
                    next_tick = monotonic() + TICK_S
            self._drain(target)
            self._tick(target)
        except Exception as error:
            self._switch.fail("recorder", error)
            self._close_by = min(self._close_by, monotonic() + CLOSE_S)
        target.close(self._close_by)

    def _open_target(self) -> _Target:
        facts = self._engine_facts()
        if self._own_process:
            try:
                with _starting:
                    self._process = ReplayProcess(self._shape, self._settings, facts, self._switch)
                return self._process
            except OSError as error:
                _log.warning("hitcurve: no process of its own for the engine patch, a thread records (%s)", error)
        self._host.open(facts, self._make_sinks)
        return self._host

    def _tell_hashing(self, target: _Target) -> None:
        told: list[PlainEvent] = []
        self._reader.trust_hashes(self._facts.get("hash_algorithm"), hash_root(), told)
        target.take(told)

    def _drain(self, target: _Target) -> None:
        events, read = self.probe.events, self._reader.read
        batch: list[PlainEvent] = []
        here, asked = target is self._host, self._asked
        slice_ends = monotonic() + SLICE_S
        while events:
            taken = min(len(events), 1 if here else READ_EVENTS)
            for _ in range(taken):
                read(events.popleft(), batch)
            self.status.events += taken
            if here or len(batch) >= BATCH_EVENTS:
                target.take(batch)
                batch.clear()
            now = monotonic()
            if now >= self._close_by:
                break
            if now >= slice_ends:
                sleep(PAUSE_S)
                slice_ends = monotonic() + SLICE_S
        if batch:
            target.take(batch)
        self.probe.holds_requests = self._reader.needs_requests
        if events or asked == self._replayed or not self._settled():
            return
        with self._drained:
            self._replayed = asked
            self._drained.notify_all()

    def _settled(self) -> bool:
        """Whether the other process, where there is one, has replayed all that was handed over."""
        return self._process is None or self._process.settle(SETTLE_S)

    def _tick(self, target: _Target) -> None:
        status = self.status
        status.active, status.off_reason = self._switch.active, self._switch.off_reason
        status.dropped_events = self.probe.dropped
        status.queued_events = len(self.probe.events)
        if target is self._host:
            status.busy_s = thread_time()
        else:
            status.hand_over_s = thread_time()
        target.tick(status)

    def _engine_facts(self) -> EngineFacts:
        return EngineFacts(
            block_size=self._shape.block_size,
            pool_blocks=self._shape.pool_blocks,
            groups=self._shape.groups,
            pid=os.getpid(),
            wall_offset_s=time() - monotonic(),
            hash_root=hash_root_fingerprint(),
            vllm_span_attributes=vllm_span_attributes(),
            **self._facts,
        )


_recorders: "weakref.WeakSet[Recorder]" = weakref.WeakSet()
_following_forks = False
_starting = threading.Lock()
"""Held while a process is started, and taken by every fork: a child forked in between would keep its pipes."""


def _follow_forks(recorder: Recorder) -> None:
    global _following_forks
    _recorders.add(recorder)
    if not _following_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_after_fork
        )
        _following_forks = True


def _after_fork() -> None:
    _starting.release()
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
