"""An engine on this machine that somebody else started: known by its pid file, paused at most."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hitcurve_chaos.drivers.driver import Action, DriverFailed, Ending
from hitcurve_chaos.drivers.processes import environment_of, resume_if_same, start_ticks, state_of

__all__ = ["PidFileProcess"]

_CANNOT = "the engine is known by a pid file only: it may be paused, not ended, since nothing says how to start it"


class PidFileProcess:
    """The process whose id is in a file; read anew before every action."""

    def __init__(self, pid_file: Path) -> None:
        self._pid_file = pid_file
        self._paused: tuple[int, int | None] | None = None

    @property
    def can(self) -> frozenset[Action]:
        try:
            self._process_id()
        except DriverFailed:
            return frozenset()
        return frozenset({"pause"})

    def record(self, action: Action) -> dict[str, Any]:
        process_id = self._process_id()
        return {"fault": "process_paused", "pid": process_id, "started": start_ticks(process_id), "group": False}

    def environment(self) -> Mapping[str, str]:
        return environment_of(self._process_id())

    def ending(self) -> Ending | None:
        try:
            self._process_id()
        except DriverFailed as error:
            return Ending(f"has ended ({error})", for_good=False)
        return None

    def pause(self) -> None:
        process_id = self._process_id()
        self._paused = (process_id, start_ticks(process_id))
        try:
            os.kill(process_id, signal.SIGSTOP)
        except OSError as error:
            raise DriverFailed(f"process {process_id} cannot be paused ({error.strerror})") from error

    def resume(self) -> None:
        if self._paused is not None:
            resume_if_same(*self._paused, group=False)
            self._paused = None

    def stop(self) -> None:
        raise DriverFailed(_CANNOT)

    kill = kill_core = start = cut_network = stop

    def limit_memory(self, share: float) -> Mapping[str, float]:
        raise DriverFailed(_CANNOT)

    def restore_memory(self) -> None:
        """Never limited."""

    def join_network(self) -> None:
        """Never cut."""

    def _process_id(self) -> int:
        try:
            process_id = int(self._pid_file.read_text().strip())
        except (OSError, ValueError) as error:
            raise DriverFailed(f"{self._pid_file} holds no process id ({error})") from error
        # One that ended stays as a zombie until whoever started it takes note.
        if state_of(process_id) in (None, "Z"):
            raise DriverFailed(f"there is no process {process_id} of {self._pid_file}")
        return process_id
