"""The journal of a run: one line for every step, on disk before the step is taken."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from hitcurve.errors import UsageError
from hitcurve_chaos.clock import Clock

__all__ = ["JOURNAL_FILE", "Event", "Journal", "JournalEntry", "JournalFile", "read_journal"]

JOURNAL_FILE = "journal.jsonl"
_BEGIN = b'{"at_s": '

Event = Literal[
    "scenario_skipped",
    "scenario_started",
    "baseline_started",
    "hypothesis_met",
    "hypothesis_not_met",
    "fault_injecting",
    "fault_injected",
    "fault_refused",
    "fault_continuing",
    "fault_aborted",
    "fault_undoing",
    "fault_undone",
    "fault_undo_failed",
    "recovered",
    "not_recovered",
    "scenario_finished",
    "engine_restarting",
]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One step: when (Unix seconds), of which scenario, what, and its particulars."""

    at_s: float
    scenario: str
    event: str
    detail: Mapping[str, Any]
    line: int = 0
    """Where it stands in ``journal.jsonl``, from 1."""


class Journal(Protocol):
    """Takes notes of steps."""

    def write(self, scenario: str, event: Event, /, **detail: Any) -> None: ...


class JournalFile:
    """Appends to ``journal.jsonl`` of a run folder; every line is synced to disk before ``write`` returns."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / JOURNAL_FILE
        self._clock = clock

    def write(self, scenario: str, event: Event, /, **detail: Any) -> None:
        line = json.dumps(
            {"at_s": self._clock.now(), "scenario": scenario, "event": event, "detail": detail}, default=str
        )
        with self._path.open("a+b") as file:
            _drop_torn_line(file)
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def read_journal(folder: Path) -> Iterator[JournalEntry]:
    """Entries of a run folder, in order. A torn last line (the writer was killed) is left out.

    Raises UsageError where there is no journal or another line cannot be read.
    """
    path = folder / JOURNAL_FILE
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); name the folder of a chaos run, the one given as --out."
        ) from error
    for number, line in enumerate(lines, start=1):
        yield _entry(path, number, line)
    if rest and not _torn(rest):
        yield _entry(path, len(lines) + 1, rest)


def _entry(path: Path, number: int, line: bytes) -> JournalEntry:
    try:
        values = json.loads(line)
        entry = JournalEntry(values["at_s"], values["scenario"], values["event"], values["detail"], number)
        for value, kind in (
            (entry.at_s, int | float),
            (entry.scenario, str),
            (entry.event, str),
            (entry.detail, dict),
        ):
            if not isinstance(value, kind):
                raise TypeError
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}:{number} is not a journal entry; restore the file as the run wrote it, or undo by hand."
        ) from error
    return entry


def _torn(line: bytes) -> bool:
    """Whether it is the begin of a line as ``JournalFile`` writes it, and not some other content."""
    if not (line.startswith(_BEGIN) or _BEGIN.startswith(line)):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _drop_torn_line(file: BinaryIO) -> None:
    """Cut off what a killed writer left of a line; else the next entry would be written behind it."""
    file.seek(0)
    rest = file.read().rpartition(b"\n")[2]
    if rest and _torn(rest):
        file.truncate(file.tell() - len(rest))
    elif rest:
        file.write(b"\n")
