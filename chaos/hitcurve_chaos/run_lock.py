"""Who has a run folder: a run that lives holds its lock, and a dead one has let go of it, however it died."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hitcurve.errors import UsageError

__all__ = ["LOCK_FILE", "held", "make_run_folder"]

LOCK_FILE = "run.lock"


@contextmanager
def held(folder: Path, *, otherwise: str) -> Iterator[None]:
    """Hold the lock of ``folder`` in the block; UsageError with the sentence ``otherwise`` where another has it.

    The operating system frees it with the process, and children do not inherit it.
    """
    try:
        file = (folder / LOCK_FILE).open("ab")
    except OSError as error:
        raise _unusable(folder, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(otherwise) from None
        except OSError as error:
            raise _unusable(folder, error) from error
        yield


def make_run_folder(folder: Path) -> None:
    """Make ``folder`` unless it is there, and see that files can be made in it; UsageError otherwise."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f"{LOCK_FILE}.probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _unusable(folder, error) from error


def _unusable(folder: Path, error: OSError) -> UsageError:
    return UsageError(f"the run folder {folder} cannot be written ({error.strerror}); choose another --out.")
