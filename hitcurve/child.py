"""A program of ours run as a child process: started in its own process group, its output kept in a file."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hitcurve import child_guard
from hitcurve.errors import EnvironmentFailed

__all__ = ["LISTENING", "ChildProcess"]

LISTENING = "listening on "
"""What our servers print on a line of their own, followed by their URL, once they accept connections."""

_POLL_S = 0.05
_TAIL_LINES = 3


class ChildProcess:
    """One child process and everything it starts; leaving the ``with`` block ends them all.

    ``log`` collects stdout and stderr. The child leads a process group of its own, so that Ctrl-C reaches only us
    and a child that starts further processes (a vLLM server does) is ended whole. Where we are killed and can end
    nothing any more, a guard (``hitcurve.child_guard``) ends the group.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the program; EnvironmentFailed where it cannot be executed."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.log.open("wb") as output:
                self._process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self._environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise EnvironmentFailed(f"{self.name} could not be started: {error}.") from error
        self._guard = _guard_of(self._process.pid)
        return self

    @property
    def returncode(self) -> int | None:
        """Exit code, ``None`` while it runs or before it was started."""
        return self._process.poll() if self._process else None

    @property
    def process_id(self) -> int | None:
        """Id of the process and of its group, ``None`` before it was started."""
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_listening(self, timeout_s: float) -> str:
        """The URL the server prints once it listens; EnvironmentFailed when it ends or stays silent."""
        self._wait(lambda: self._announced() is not None, timeout_s, "did not begin to listen")
        url = self._announced()
        assert url is not None
        return url

    def wait_healthy(self, url: str, timeout_s: float) -> None:
        """Wait until ``url`` answers 200; EnvironmentFailed when the program ends or never does."""
        self._wait(lambda: _answers(url), timeout_s, f"did not answer at {url}")

    def wait_end(self, timeout_s: float) -> int:
        """Exit code once the program has ended by itself; EnvironmentFailed when it does not."""
        assert self._process is not None
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise EnvironmentFailed(f"{self.name} did not end within {timeout_s:g} s; see {self.log}.") from None
        self._dismiss_guard()
        return code

    def stop(self, grace_s: float = 10.0) -> None:
        """End the whole process group: politely first, by force after ``grace_s``."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._dismiss_guard()

    def __enter__(self) -> Self:
        return self if self._process else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            # A guard that somebody ended takes no line.
            with contextlib.suppress(BrokenPipeError):
                self._guard.communicate(b"all is well\n")
            self._guard = None

    def _announced(self) -> str | None:
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith(LISTENING):
                return line.removeprefix(LISTENING).strip()
        return None

    def _wait(self, ready: Callable[[], bool], timeout_s: float, complaint: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                raise EnvironmentFailed(f"{self.name} ended with code {self.returncode}: {self._tail()}")
            if time.monotonic() > deadline:
                raise EnvironmentFailed(f"{self.name} {complaint} within {timeout_s:g} s; see {self.log}.")
            time.sleep(_POLL_S)

    def _tail(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return " | ".join(lines[-_TAIL_LINES:]) or f"no output in {self.log}"

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return


def _guard_of(group: int) -> subprocess.Popen[bytes]:
    """The process that ends ``group`` should we be gone; in a session of its own, so that no Ctrl-C ends it."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", child_guard.__file__, str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
