"""Time as the engine sees it: the real one, and one that jumps, for tests that do not wait."""

import asyncio
import time
from typing import Protocol

__all__ = ["Clock", "RealClock", "VirtualClock"]


class Clock(Protocol):
    """A monotonic clock one can wait on, and the wall clock beside it; seconds."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...

    async def sleep_until(self, monotonic_s: float) -> None:
        """Return once ``monotonic()`` has reached the given time; always lets other tasks run."""


class RealClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep_until(self, monotonic_s: float) -> None:
        await asyncio.sleep(max(0.0, monotonic_s - time.monotonic()))


class VirtualClock:
    """A clock that only moves when somebody waits on it, and then at once."""

    def __init__(self, wall_s: float = 1_700_000_000.0) -> None:
        self._now = 0.0
        self._wall = wall_s

    def monotonic(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._wall + self._now

    async def sleep_until(self, monotonic_s: float) -> None:
        self._now = max(self._now, monotonic_s)
        await asyncio.sleep(0)
