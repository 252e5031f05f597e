"""The process that replays: ledger, sinks, spans and metrics of one engine, beside the engine's own process.

It imports nothing of vLLM and lives as long as the other end of its standard input. Every wish to end that a
terminal or a supervisor sends to all processes is left to the engine.
"""

import logging
import os
import signal
import sys
from contextlib import suppress
from time import monotonic, thread_time
from typing import Any, Final

from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.recording.discovery import make_sinks
from hitcurve_engine.recording.frames import CLOSE, EVENTS, FLUSH, STATUS, unpack
from hitcurve_engine.recording.replay_host import ReplayHost
from hitcurve_engine.recording.sinks import EngineFacts, PatchStatus
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

__all__ = ["CLOSE_S", "main"]

CLOSE_S: Final = 5.0
"""Where the engine's process did not say how long its end may take."""
_NICENESS: Final = 5


def main() -> None:
    """Serve the pipe on standard input until it ends; answers go to standard output."""
    answers = _own_standard_output()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _give_way()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    messages = unpack(0)
    opening = next(messages, None)
    if opening is not None:
        _, shape, settings, facts = opening
        switch = TellingSwitch(answers)
        host = ReplayHost(CacheShape(**shape), Settings(**settings), switch)
        host.open(EngineFacts(**facts), make_sinks)
        serve(host, switch, messages, answers)
    # Threads of exporters must not keep the process.
    sys.stderr.flush()
    os._exit(0)


def serve(host: ReplayHost, switch: Switch, messages: Any, answers: int) -> None:
    """Take messages until there are no more, then close the sinks."""
    status = PatchStatus()
    engines_errors: dict[str, int] = {}
    deadline_s = None
    for kind, content in messages:
        if kind == EVENTS:
            host.take(content)
        elif kind == STATUS:
            engines_errors = content.pop("errors")
            for name, value in content.items():
                setattr(status, name, value)
            update(status, engines_errors, switch)
            host.tick(status)
        elif kind == FLUSH:
            say(answers, f"flushed {content}")
        elif kind == CLOSE:
            deadline_s = content
    update(status, engines_errors, switch)
    host.tick(status)
    host.close(deadline_s if deadline_s is not None else monotonic() + CLOSE_S)


def update(status: PatchStatus, engines_errors: dict[str, int], switch: Switch) -> None:
    """What this process adds to the engine's part of the status."""
    places = engines_errors.keys() | switch.errors.keys()
    status.errors = {place: engines_errors.get(place, 0) + switch.errors.get(place, 0) for place in sorted(places)}
    status.busy_s = thread_time()


def say(answers: int, line: str) -> None:
    """One line to the engine's process, which may be gone."""
    with suppress(OSError):
        os.write(answers, (" ".join(line.split()) + "\n").encode())


class TellingSwitch(Switch):
    """Turning it off is left to the engine's process, which has the hooks and says so in the log."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self._answers = answers

    def turn_off(self, reason: str) -> None:
        """See ``Switch``."""
        if self.active:
            self.active = False
            self.off_reason = reason
            say(self._answers, f"off {reason}")


def _own_standard_output() -> int:
    """What libraries print goes to standard error; the answers keep the pipe."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def _give_way() -> None:
    """The engine goes first; and its thread may be bound to one core, where this process has no business."""
    with suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    with suppress(OSError, AttributeError):
        if len(os.sched_getaffinity(0)) == 1:
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
