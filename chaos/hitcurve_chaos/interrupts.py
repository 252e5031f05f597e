"""Holding back Ctrl-C and SIGTERM while something must be finished."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["held_back", "terminated_like_interrupted"]


@contextmanager
def held_back() -> Iterator[None]:
    """Signals that would interrupt are delivered when the block has ended; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        pending.append(number)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if pending:
            signal.raise_signal(pending[0])


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt in the block, so that a stopped run undoes what it did."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
