"""The process that replays, as the engine's process sees it: frames of plain events go into its standard input.

Whatever computes in the engine's process holds the interpreter's lock that the engine's own thread waits for.
Here only ``marshal`` does, which packs a request's events in a few microseconds.
"""

import marshal
import os
import select
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from time import monotonic
from typing import Any, Final

from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.recording.event_reader import PlainEvent
from hitcurve_engine.recording.frames import CLOSE, EVENTS, FLUSH, OPEN, STATUS, pack
from hitcurve_engine.recording.sinks import EngineFacts, PatchStatus
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

__all__ = ["ReplayProcess"]

_PIPE_BYTES: Final = 1 << 20
_MAIN: Final = "from hitcurve_engine.recording.replay_main import main; main()"
_END_S: Final = 1.0
"""How long the end of a process that is killed, or that closed its pipes, is waited for."""


class ReplayProcess:
    """Starts the process at once; raises OSError where that cannot be done.

    Used by the recorder's thread, except ``kill`` and ``abandon``. When the process ends by itself the patch is
    turned off, with one line in the log.
    """

    def __init__(self, shape: CacheShape, settings: Settings, facts: EngineFacts, switch: Switch) -> None:
        self._switch = switch
        self._answers = b""
        self._flushed = 0
        self._asked = 0
        self._lost = False
        opening = pack((OPEN, asdict(shape), asdict(settings), asdict(facts)))
        # Safe path: without it the working directory goes before the standard library.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": _search_path()},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._into, self._outof = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._outof, False)
        self._answered = select.poll()
        self._answered.register(self._outof, select.POLLIN)
        _widen(self._into)
        self._write(opening)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def take(self, events: list[PlainEvent]) -> None:
        """Hand them over; waits where the process has fallen behind by more than a pipe holds."""
        try:
            frame = pack((EVENTS, events))
        except ValueError:
            frame = pack((EVENTS, self._plain(events)))
        self._write(frame)

    def tick(self, status: PatchStatus) -> None:
        """Tell how the part in the engine's process does; also notices what the other part says."""
        self._listen(0.0)
        self._send(
            (
                STATUS,
                {
                    "active": status.active,
                    "off_reason": status.off_reason,
                    "errors": dict(status.errors),
                    "events": status.events,
                    "dropped_events": status.dropped_events,
                    "queued_events": status.queued_events,
                    "hand_over_s": status.hand_over_s,
                },
            )
        )

    def settle(self, timeout_s: float) -> bool:
        """Wait until everything handed over is replayed; False where it is not in time."""
        self._asked += 1
        self._send((FLUSH, self._asked))
        deadline = monotonic() + timeout_s
        while self._flushed < self._asked and not self._lost and monotonic() < deadline:
            self._listen(max(deadline - monotonic(), 0.0))
        return self._flushed >= self._asked

    def close(self, deadline_s: float) -> None:
        """Let the process close its sinks and end until the monotonic clock reads ``deadline_s``; then kill it."""
        self._send((CLOSE, deadline_s))
        self._lost = True
        self._close_pipes()
        try:
            self._process.wait(max(deadline_s - monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it now, whatever it does; not waited for where even that does not end it (a disk that hangs)."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)

    def abandon(self) -> None:
        """In a forked child: the process belongs to the parent, and must see the end of the parent's pipe."""
        self._lost = True
        self._close_pipes()
        self._process.returncode = 0

    def _plain(self, events: list[PlainEvent]) -> list[PlainEvent]:
        """Without those that hold something else than plain values, which are counted."""
        plain = []
        for event in events:
            try:
                marshal.dumps(event)
            except ValueError as error:
                self._switch.note("handing over", error)
            else:
                plain.append(event)
        return plain

    def _send(self, message: tuple[Any, ...]) -> None:
        self._write(pack(message))

    def _write(self, frame: bytes) -> None:
        if self._lost:
            return
        left = memoryview(frame)
        try:
            while left:
                left = left[os.write(self._into, left) :]
        except OSError:
            self._lose()

    def _listen(self, timeout_s: float) -> None:
        if self._lost or not self._answered.poll(timeout_s * 1000):
            return
        try:
            said = os.read(self._outof, 65_536)
        except OSError:
            return
        if not said:
            self._lose()
            return
        *lines, self._answers = (self._answers + said).split(b"\n")
        for line in lines:
            what, _, value = line.decode(errors="replace").partition(" ")
            if what == "flushed":
                self._flushed = int(value)
            elif what == "off":
                self._switch.turn_off(value)

    def _lose(self) -> None:
        self._lost = True
        try:
            code: int | None = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            code = None
            self.kill()
        self._switch.count("recording process")
        self._switch.turn_off(f"its recording process ended with code {code}")
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _search_path() -> str:
    """Where this interpreter looks for modules, as the environment of another one says it."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path if isinstance(entry, str))


def _widen(pipe: int) -> None:
    """So that a batch seldom waits for the other side; Linux only, and no matter where it fails."""
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
