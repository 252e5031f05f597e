"""Processes of this machine as /proc shows them; a process is known by its id and by when it started."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

__all__ = ["descendants", "environment_of", "resume_if_same", "start_ticks", "state_of"]

_PROCESSES = Path("/proc")
_AFTER_NAME_STATE, _AFTER_NAME_PARENT, _AFTER_NAME_START = 0, 1, 19


def start_ticks(process_id: int) -> int | None:
    """When the process started, in clock ticks since boot; ``None`` where there is none of that id."""
    fields = _fields(process_id)
    return int(fields[_AFTER_NAME_START]) if fields else None


def state_of(process_id: int) -> str | None:
    """One letter as in proc(5): ``T`` is stopped by a signal, ``Z`` a zombie; ``None`` where there is none."""
    fields = _fields(process_id)
    return fields[_AFTER_NAME_STATE] if fields else None


def descendants(process_id: int) -> list[tuple[int, str]]:
    """(id, command line and name) of every process below this one."""
    parents = dict(_all_parents())
    found = []
    for child in parents:
        above: int | None = child
        while above is not None and above != process_id:
            above = parents.get(above)
        if above == process_id and child != process_id:
            found.append((child, _words(child)))
    return found


def environment_of(process_id: int) -> dict[str, str]:
    """The environment that the process was started with; empty where it may not be read."""
    try:
        text = (_PROCESSES / str(process_id) / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def resume_if_same(process_id: int, started: int | None, *, group: bool) -> bool:
    """SIGCONT to the process (and its group), unless it is gone or its id belongs to another one by now."""
    if started is None or start_ticks(process_id) != started:
        return False
    try:
        (os.killpg if group else os.kill)(process_id, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True


def _all_parents() -> Iterator[tuple[int, int]]:
    for entry in _PROCESSES.glob("[0-9]*"):
        fields = _fields(int(entry.name))
        if fields:
            yield int(entry.name), int(fields[_AFTER_NAME_PARENT])


def _words(process_id: int) -> str:
    try:
        line = (
            (_PROCESSES / str(process_id) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
        name = (_PROCESSES / str(process_id) / "comm").read_text(errors="replace")
    except OSError:
        return ""
    return f"{line} {name.strip()}"


def _fields(process_id: int) -> list[str] | None:
    try:
        text = (_PROCESSES / str(process_id) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
