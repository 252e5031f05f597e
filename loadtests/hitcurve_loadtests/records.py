"""One finished request, and the file the finished requests are appended to."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_loadtests.stream import Outcome

__all__ = ["RequestLog", "RequestRecord"]


@dataclass(slots=True)
class RequestRecord:
    """A line of ``requests.jsonl`` (docs/run_folder.md). Times in Unix seconds, durations in seconds.

    Nobody changes it. It is not frozen since a frozen one takes four times as long to make, for every request.
    """

    at_s: float
    load: str
    profile: str
    group: str
    model: str
    status: int | None
    outcome: Outcome
    reason: str | None
    ttft_s: float | None
    tpot_s: float | None
    duration_s: float
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    late_s: float | None
    """How long after its scheduled time it was sent; ``None`` in a closed loop, which has no schedule."""
    first_content_s: float | None = None
    """First delta that is not reasoning."""
    number: int = 0
    """Which request of its worker it is, from 1, in the order of sending: the same seed sends the same again."""
    worker: int = 0
    """Which process of the load sent it, from 1; 0 where there is only one."""
    queue_s: float | None = None
    """How long it waited in the engine before it was scheduled, where the engine says so."""


class RequestLog:
    """Appends records to a file that other load processes may append to as well.

    Each ``write`` is of whole lines to a descriptor opened for appending, so lines of several processes never mix.
    ``soon`` calls back once all that has arrived is dealt with: requests that end together are written together,
    and a reader finds every finished request at once all the same. Without it each is written by itself.
    """

    def __init__(self, path: Path, soon: Callable[[Callable[[], None]], object] | None = None) -> None:
        """UsageError where the folder cannot be written to. The file is made with the first record."""
        self.path = path
        self._soon = soon
        self._descriptor: int | None = None
        self._waiting: list[bytes] = []
        self._failure: OSError | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(path, error) from error
        if not os.access(path.parent, os.W_OK | os.X_OK) or path.is_dir():
            raise _unwritable(path, OSError(errno.EACCES, "it is not a file in a folder one may write to"))

    def append(self, record: RequestRecord) -> None:
        """Write one line; EnvironmentFailed where the disk does not take it, or did not take one before."""
        self._waiting.append(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        if self._soon is None:
            self._write()
        elif len(self._waiting) == 1:
            self._soon(self._write)
        self._check()

    def close(self) -> None:
        """Write what still waits; EnvironmentFailed where the disk does not take it."""
        self._write()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._check()

    def _write(self) -> None:
        lines = b"".join(self._waiting)
        self._waiting.clear()
        if not lines or self._failure is not None:
            return
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o644)
            # A disk that is nearly full takes a part, and refuses the rest.
            while lines:
                lines = lines[os.write(self._descriptor, lines) :]
        except OSError as error:
            self._failure = error

    def _check(self) -> None:
        if self._failure is not None:
            raise EnvironmentFailed(
                f"the results cannot be written to {self.path}: {self._failure.strerror}."
            ) from self._failure


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"the results cannot be written to {path}: {error.strerror}; choose another --out.")
