"""Time as the exporter sees it: a wall clock for what people read, a monotonic one for durations."""

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Both clocks, in seconds."""

    def wall(self) -> float:
        """Unix time."""
        ...

    def monotonic(self) -> float:
        """Never runs backwards."""
        ...


class SystemClock:
    """The clocks of the machine."""

    def wall(self) -> float:
        """Unix time."""
        return time.time()

    def monotonic(self) -> float:
        """Never runs backwards."""
        return time.monotonic()
