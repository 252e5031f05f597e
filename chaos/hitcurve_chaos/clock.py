"""The clock of a run: Unix seconds and waiting, injected so that scenario logic is tested without waiting."""

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "SystemClock", "wait_until"]


class Clock(Protocol):
    """Unix time in seconds, and waiting."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def wait_until(
    done: Callable[[], bool], within_s: float, *, clock: Clock | None = None, every_s: float = 0.05
) -> bool:
    """Ask ``done`` until it says yes; False when it did not within ``within_s`` seconds.

    The time that an answer takes counts: a question to a hung engine may take half a minute.
    """
    clock = clock or SystemClock()
    deadline_s = clock.now() + within_s
    while not done():
        if clock.now() >= deadline_s:
            return False
        clock.sleep(every_s)
    return True
