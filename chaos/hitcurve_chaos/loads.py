"""Loads of a run: traffic generators that run beside the frame, as processes of their own."""

from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["Loads", "RunningLoad"]


class RunningLoad(Protocol):
    """A traffic generator that runs."""

    def problem(self) -> str | None:
        """Why its traffic is not what was asked for (it ended, it lags behind); ``None`` when all is well."""

    def await_effect(self) -> None:
        """Wait until it has been answered once, a while at most: a process may take seconds to begin to send.

        Never raises: under a fault an engine may answer nobody, and ``problem`` tells of a load that ended.
        """

    def stop(self) -> None:
        """End it and wait until it has ended."""


class Loads(Protocol):
    """Starts traffic generators that write what they measure to the run folder's ``requests.jsonl``."""

    def start(self, name: str, settings: Mapping[str, Any]) -> RunningLoad:
        """Start a load called ``name``; EnvironmentFailed where it does not start."""
