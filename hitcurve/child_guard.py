"""Ends a process group when the program that started it is gone, however it died.

Run as a script by ``hitcurve.child``, with the id of the group as its argument. Standard input is a pipe whose
other end only the parent holds: a line on it says that all is well, its end without one says that the parent died.
Unlike Linux' parent-death signal, this reaches grandchildren, insists on those that ignore SIGTERM, and does not
depend on the thread that started the child.
"""

import contextlib
import os
import signal
import sys
import time

__all__ = ["end_group"]

GRACE_S = 10.0
_POLL_S = 0.05


def end_group(group: int, grace_s: float) -> None:
    """Ask all processes of ``group`` to end, and make them after ``grace_s`` seconds."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM)
        deadline_s = time.monotonic() + grace_s
        while time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
            os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__" and not sys.stdin.buffer.read():
    end_group(int(sys.argv[1]), GRACE_S)
