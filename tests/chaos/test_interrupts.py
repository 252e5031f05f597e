"""What ends a run from outside: Ctrl-C, SIGTERM, a closed terminal."""

import io
import os
import signal
from collections.abc import Iterator

import pytest

from hitcurve_chaos.interrupts import ended_like_interrupted, held_back
from hitcurve_chaos.progress import ConsoleProgress, QuietConsole


@pytest.fixture(autouse=True)
def _handlers_stay() -> Iterator[None]:
    """Each test begins as in a terminal, also where the tests themselves run under nohup, and leaves it so."""
    usual = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    left = {number: signal.signal(number, handler) for number, handler in before.items()}
    assert left == usual


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_interrupts_and_waits_for_what_must_be_finished(number: signal.Signals) -> None:
    finished = []

    def undo() -> None:
        with ended_like_interrupted(), held_back():
            signal.raise_signal(number)
            finished.append(number)

    with pytest.raises(KeyboardInterrupt):
        undo()
    assert finished == [number]


def test_a_run_under_nohup_goes_on_when_the_terminal_is_closed() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_like_interrupted(), held_back():
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_reader_of_the_progress_who_went_away_stops_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    progress = ConsoleProgress(QuietConsole(file=_Unbuffered(write)))
    progress.step("reset-prefix-cache", "undone")
    progress.step("reset-prefix-cache", "waiting")
    os.close(write)
    progress.step("reset-prefix-cache", "over")


class _Unbuffered(io.StringIO):
    """Writes straight to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        return os.write(self._descriptor, text.encode())
