"""Undoing what a run that died has left: ``hitcurve chaos recover DIR``.

A fault is left over where the journal says that it was begun and does not say that it was undone or that nothing
was touched. Load generators of a dead run end by themselves after a while; here they are ended at once.
"""

import os
import platform
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_chaos.calls import Transport
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.faults.fault import Undo
from hitcurve_chaos.faults.left_over import check_record, undo_record
from hitcurve_chaos.journal import JOURNAL_FILE, Event, JournalEntry, JournalFile, read_journal
from hitcurve_chaos.run_lock import held
from hitcurve_chaos.targets import Target, described, is_loopback, require_allowed

__all__ = ["Recovered", "end_orphan_loads", "left_over", "recover"]

_PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A fault that was left over, and what became of undoing it."""

    scenario: str
    fault: str
    undo: Undo


def left_over(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """The last entry with the record of each fault that may still be there, in order."""
    open_faults: dict[str, JournalEntry] = {}
    for entry in entries:
        if entry.event in ("fault_injecting", "fault_continuing"):
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

    UsageError where the run still lives, its journal cannot be read, or a target is no longer allowed.
    """
    left_over(read_journal(folder))
    alive = (
        f"the run in {folder} is still going; end it with Ctrl-C, which undoes its faults, "
        "and recover only what a dead run has left."
    )
    with held(folder, otherwise=alive):
        return _undo_all(folder, clock, transport, end_loads or end_orphan_loads)


def _undo_all(
    folder: Path, clock: Clock, transport: Transport, end_loads: Callable[[Path], int]
) -> list[Recovered]:
    pending = [_pending(folder, entry) for entry in left_over(read_journal(folder))]
    journal = JournalFile(folder, clock)
    end_loads(folder)
    done = []
    for scenario, record, target in pending:
        journal.write(scenario, "fault_undoing", by="recover")
        undo = undo_record(record, target, transport)
        event: Event = "fault_undone" if undo.restored else "fault_undo_failed"
        journal.write(scenario, event, by="recover", sentence=undo.sentence, **undo.detail)
        done.append(Recovered(scenario, record["fault"], undo))
    return done


def _pending(folder: Path, entry: JournalEntry) -> tuple[str, Mapping[str, Any], Target]:
    """Scenario, record and target of a fault that is left over; UsageError where it cannot be undone from them."""
    place = f"{folder / JOURNAL_FILE}:{entry.line}"
    try:
        record = check_record(entry.detail.get("record"))
    except ValueError as error:
        raise UsageError(f"{place} {error}.") from error
    try:
        target = described(entry.detail["target"])
    except (KeyError, TypeError) as error:
        raise UsageError(
            f"{place} does not say which target '{entry.scenario}' acted on; undo it by hand."
        ) from error
    require_allowed(target)
    machine = entry.detail.get("machine")
    # Its processes, and what a loopback address means, are of the machine that the run ran on.
    if machine not in (None, platform.node()) and is_loopback(target.engine):
        raise UsageError(
            f"{place} tells of a fault on the machine '{machine}', and this is '{platform.node()}'; "
            "recover it there."
        )
    return entry.scenario, record, target


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
