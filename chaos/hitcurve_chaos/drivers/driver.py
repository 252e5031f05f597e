"""What a scenario may do to an engine beside talking HTTP with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

__all__ = ["Action", "Driver", "DriverFailed", "Ending"]

Action = Literal["pause", "stop", "kill", "kill_core", "start", "memory_limit", "cut_network"]


class DriverFailed(Exception):
    """The action could not be done, or not be undone; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an engine ended, in words that follow "it"; ``for_good``: nobody else would start it again."""

    sentence: str
    for_good: bool


class Driver(Protocol):
    """Controls one engine. Each method raises DriverFailed; those that undo may be called without need."""

    @property
    def can(self) -> frozenset[Action]:
        """What it can do here and now."""

    def record(self, action: Action) -> dict[str, Any]:
        """JSON values from which another process can undo the action (``faults/left_over.py``)."""

    def environment(self) -> Mapping[str, str]:
        """The environment its process was started with."""

    def ending(self) -> Ending | None:
        """How the engine ended; ``None`` while it runs."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None:
        """SIGTERM, and wait until it has ended."""

    def kill(self) -> None:
        """SIGKILL, and wait until it has ended."""

    def kill_core(self) -> None:
        """SIGKILL of the process that schedules and computes, behind the one that serves HTTP."""

    def start(self) -> None:
        """Bring it back up, at the address it had, and wait until it listens."""

    def limit_memory(self, share: float) -> Mapping[str, float]:
        """Let it have ``share`` of what it uses and may use; returns bytes before and now."""

    def restore_memory(self) -> None: ...

    def cut_network(self) -> None: ...

    def join_network(self) -> None: ...
