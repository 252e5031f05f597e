"""One finished request, and the file the finished requests are appended to."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import orjson

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_loadtests.stream import Outcome

__all__ = ["RequestLog", "RequestRecord"]


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A line of ``requests.jsonl`` (docs/run_folder.md). Times in Unix seconds, durations in seconds."""

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


class RequestLog:
    """Appends records to a file that other load processes may append to as well.

    Each line is one ``write`` to a descriptor opened for appending, so lines of several processes never mix
    and a reader finds every finished request at once.
    """

    def __init__(self, path: Path) -> None:
        """UsageError where the folder cannot be written to. The file is made with the first record."""
        self.path = path
        self._descriptor: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(path, error) from error
        if not os.access(path.parent, os.W_OK | os.X_OK) or path.is_dir():
            raise _unwritable(path, OSError(errno.EACCES, "it is not a file in a folder one may write to"))

    def append(self, record: RequestRecord) -> None:
        """Write one line; EnvironmentFailed where the disk does not take it."""
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o644)
            os.write(self._descriptor, orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise EnvironmentFailed(f"the results cannot be written to {self.path}: {error.strerror}.") from error

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"the results cannot be written to {path}: {error.strerror}; choose another --out.")
