"""From the engine's process to the API server's: a folder with one file per engine, rewritten about once a second.

With one API server vLLM's ``/metrics`` shows only what lives in the API server's own process. The folder's name is
chosen there, before the engine starts, and inherited in the environment; the folder itself is made by the engine.
"""

import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from hitcurve_engine.metrics.tally import Snapshot

__all__ = ["HANDOFF_VARIABLE", "HandoffWriter", "new_handoff_folder", "read_handoff"]

HANDOFF_VARIABLE: Final = "HITCURVE_METRICS_HANDOFF"
"""Set by the front end; not for people."""

_PREFIX: Final = "hitcurve-"
_CHOSEN: Final = re.compile(f"{_PREFIX}(?P<reader>[0-9]{{1,9}})-[0-9a-f]{{16}}")
"""Only a folder with a name from ``new_handoff_folder`` may be taken away with all that is in it."""
_numbers = count()


def new_handoff_folder() -> Path:
    """A folder for this process to read from, which nobody can guess. It is not made."""
    return Path(tempfile.gettempdir(), f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}")


class HandoffWriter:
    """Writes the snapshots of one engine into ``folder``, which is made unless it exists.

    Raises OSError where the folder cannot be made or belongs to somebody else.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        _check_owner(folder)
        self._pid = os.getpid()
        self._file = folder / f"{self._pid}-{next(_numbers)}.json"

    def publish(self, snapshot: Snapshot) -> None:
        """Replace the file. Once the front end has taken the folder away there is nobody to write for."""
        unfinished = self._file.with_suffix(".new")
        # Not asked before: another engine may take the folder away at any moment.
        with suppress(FileNotFoundError):
            unfinished.write_text(json.dumps({"pid": self._pid, "families": snapshot}), encoding="utf-8")
            os.replace(unfinished, self._file)

    def close(self) -> None:
        """The file stays as long as the process, since it says that the patch has ended. The folder of a front end
        that was killed goes: nobody else takes it away."""
        folder = self._file.parent
        chosen = _CHOSEN.fullmatch(folder.name)
        if chosen is not None and not _lives(int(chosen["reader"])):
            shutil.rmtree(folder, ignore_errors=True)


def read_handoff(folder: Path) -> Iterator[Snapshot]:
    """What every living engine wrote last; files of dead processes are removed. Nothing where no engine wrote."""
    try:
        _check_owner(folder)
        files = sorted(folder.glob("*.json"))
    except OSError:
        return
    for file in files:
        written = _read(file)
        if written is None:
            continue
        if _lives(written["pid"]):
            yield written["families"]
        else:
            file.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        written: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return written


def _check_owner(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder of this user's alone")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
