"""One run at a time on an engine: two would take each other's faults for the engine's."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from hitcurve.errors import UsageError

__all__ = ["held_engines", "lock_folder"]

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443}


@contextmanager
def held_engines(urls: Sequence[str]) -> Iterator[None]:
    """Hold the engines at those addresses in the block; UsageError where another run of this user here has one.

    The operating system frees them with the process. Where ``lock_folder`` cannot be had nothing is held: this is
    a guard, not a condition.
    """
    where = lock_folder()
    with ExitStack() as stack:
        for url in dict.fromkeys(urls):
            try:
                where.mkdir(mode=0o700, exist_ok=True)
                path = where / f"{hashlib.sha256(_place(url).encode()).hexdigest()[:32]}.lock"
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except OSError:
                continue
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"another run of hitcurve chaos is using {url}; wait until it has ended, or name another "
                    "target."
                ) from None
        yield


def lock_folder() -> Path:
    """This user's folder for the locks, in the machine's folder for temporary files."""
    return Path(tempfile.gettempdir()) / f"hitcurve-chaos-{os.getuid()}"


def _place(url: str) -> str:
    """Host and port, the same however this machine is named."""
    parts = urlsplit(url)
    host = "localhost" if parts.hostname in _THIS_MACHINE else parts.hostname
    return f"{host}:{parts.port or _PORTS.get(parts.scheme)}"
