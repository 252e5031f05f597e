"""Undoing what a run that died has left: ``hitcurve chaos recover DIR``.

A fault is left over where the journal says that it was begun and does not say that it was undone or that nothing
was touched. Load generators of a dead run end by themselves after a while; here they are ended at once.
"""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hitcurve.errors import UsageError
from hitcurve_chaos.calls import Transport
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.faults.fault import Undo
from hitcurve_chaos.faults.left_over import undo_record
from hitcurve_chaos.journal import Event, JournalEntry, JournalFile, read_journal
from hitcurve_chaos.targets import described, require_allowed

__all__ = ["Recovered", "end_orphan_loads", "left_over", "recover"]

_PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A fault that was left over, and what became of undoing it."""

    scenario: str
    fault: str
    undo: Undo


def left_over(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """The ``fault_injecting`` entries whose fault may still be there, in order."""
    open_faults: dict[str, JournalEntry] = {}
    for entry in entries:
        if entry.event == "fault_injecting":
            open_faults[entry.scenario] = entry
        elif entry.event == "fault_undone" or (
            entry.event == "fault_refused" and not entry.detail.get("touched", True)
        ):
            open_faults.pop(entry.scenario, None)
    return list(open_faults.values())


def recover(
    folder: Path, clock: Clock, transport: Transport, *, end_loads: Callable[[Path], int] | None = None
) -> list[Recovered]:
    """Undo every fault the run in ``folder`` left; the journal gets an entry before and after each.

    UsageError where the folder has no readable journal or a target is no longer allowed.
    """
    pending = left_over(read_journal(folder))
    journal = JournalFile(folder, clock)
    (end_loads or end_orphan_loads)(folder)
    done = []
    for entry in pending:
        record = entry.detail["record"]
        try:
            target = described(entry.detail["target"])
        except (KeyError, TypeError) as error:
            raise UsageError(
                f"the journal in {folder} does not say which target '{entry.scenario}' acted on; undo it by hand."
            ) from error
        require_allowed(target)
        journal.write(entry.scenario, "fault_undoing", by="recover")
        undo = undo_record(record, target, transport)
        event: Event = "fault_undone" if undo.restored else "fault_undo_failed"
        journal.write(entry.scenario, event, by="recover", sentence=undo.sentence, **undo.detail)
        done.append(Recovered(entry.scenario, str(record["fault"]), undo))
    return done


def end_orphan_loads(folder: Path) -> int:
    """End the load generators that still write into ``folder``; how many. Where there is no /proc: none."""
    ended = 0
    for process_id, words in _command_lines():
        if "hitcurve" in words and "load" in words and str(folder.resolve()) in words:
            try:
                os.kill(process_id, signal.SIGTERM)
            except (ProcessLookupError, PermissionError):
                continue
            ended += 1
    return ended


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    for entry in _PROCESSES.glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        yield int(entry.name), words
