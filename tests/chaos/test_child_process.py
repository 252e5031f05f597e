"""Child processes live no longer than the program that started them, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hitcurve.child import ChildProcess
from hitcurve.child_guard import end_group
from hitcurve.errors import EnvironmentFailed

WITHIN_S = 30.0

STUBBORN_TREE = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN) if {stubborn} else None
below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("tree", below.pid, flush=True)
time.sleep(600)
"""

PARENT = """
import sys, threading, time
from pathlib import Path
from hitcurve.child import ChildProcess
child = ChildProcess("a tree", [sys.executable, "-c", sys.argv[1]], Path(sys.argv[2]))
starter = threading.Thread(target=child.start)
starter.start()
starter.join()
print(child.process_id, flush=True)
time.sleep(600)
"""


def lives(process_id: int) -> bool:
    """Whether it runs; a zombie, which nobody has reaped yet, does not."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(done: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not done():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def tree_below(log: Path) -> int:
    """The id of the grandchild, once the child has told it."""
    wait_until(lambda: log.exists() and "\n" in log.read_text())
    return int(log.read_text().split()[1])


@contextmanager
def parent_of_tree(log: Path) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A program that started a tree of two: the program, the child's id, the grandchild's."""
    words = [sys.executable, "-c", PARENT, STUBBORN_TREE.format(stubborn=False), str(log)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            yield parent, child, tree_below(log)
        finally:
            parent.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_a_killed_parent_takes_the_whole_tree_with_it(tmp_path: Path, number: signal.Signals) -> None:
    with parent_of_tree(tmp_path / "log") as (parent, child, below):
        assert (lives(child), lives(below)) == (True, True)
        parent.send_signal(number)
        parent.wait(WITHIN_S)
        wait_until(lambda: not lives(child) and not lives(below))


def test_a_tree_that_ignores_sigterm_is_ended_by_force(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ChildProcess("a tree", [sys.executable, "-c", STUBBORN_TREE.format(stubborn=True)], log) as child:
        below = tree_below(log)
        assert child.process_id is not None
        end_group(child.process_id, grace_s=0.2)
        assert child.wait_end(WITHIN_S) == -signal.SIGKILL
        wait_until(lambda: not lives(below))


def test_stopping_ends_the_tree_and_its_guard(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ChildProcess("a tree", [sys.executable, "-c", STUBBORN_TREE.format(stubborn=False)], log) as child:
        below = tree_below(log)
        guards = children_of(os.getpid()) - {child.process_id}
        assert guards
    wait_until(lambda: not lives(below))
    assert not any(lives(guard) for guard in guards)


def test_a_child_that_ended_by_itself_leaves_no_guard(tmp_path: Path) -> None:
    before = children_of(os.getpid())
    child = ChildProcess("a short one", [sys.executable, "-c", "pass"], tmp_path / "log").start()
    assert child.wait_end(WITHIN_S) == 0
    assert children_of(os.getpid()) == before
    child.stop()


def test_a_program_that_does_not_exist_leaves_no_guard(tmp_path: Path) -> None:
    before = children_of(os.getpid())
    with pytest.raises(EnvironmentFailed, match="could not be started"):
        ChildProcess("nothing", ["/no/such/program"], tmp_path / "log").start()
    assert children_of(os.getpid()) == before


def children_of(process_id: int) -> set[int]:
    tasks = Path(f"/proc/{process_id}/task").glob("*/children")
    return {int(word) for task in tasks for word in task.read_text().split()}
