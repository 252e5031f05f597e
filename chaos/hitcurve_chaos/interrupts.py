"""Ctrl-C, SIGTERM and SIGHUP (the terminal was closed): all stop a run, none while something must be finished."""

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["ended_like_interrupted", "held_back"]

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Signals that would interrupt are delivered when the block has ended; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        pending.append(number)

    before = {number: signal.signal(number, remember) for number in _heard((signal.SIGINT, *_ENDING))}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if pending:
            signal.raise_signal(pending[0])


@contextmanager
def ended_like_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt in the block, so that a stopped run undoes what it did."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _heard(_ENDING)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heard(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Those that are not ignored: a run under ``nohup`` goes on when the terminal is closed."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
