"""The verdict on one scenario, as ``verdicts.json`` holds it (docs/run_folder.md)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from hitcurve.whole_file import write_whole
from hitcurve_chaos.hypothesis import Judgement

__all__ = [
    "SKIPPED_FILE",
    "VERDICTS_FILE",
    "Number",
    "Skipped",
    "StateChange",
    "Verdict",
    "VerdictWord",
    "as_json",
    "write_skipped",
    "write_verdicts",
]

VERDICTS_FILE = "verdicts.json"
SKIPPED_FILE = "skipped.json"

VerdictWord = Literal["ok", "bad", "no_data", "invalid"]
Number = float | int | str | None


@dataclass(frozen=True, slots=True)
class StateChange:
    """A transition of the curve, at the scrape that showed it."""

    at_s: float
    state: str
    cause: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was expected of the curve, what it did, and the numbers. Times are Unix seconds."""

    scenario: str
    title: str
    verdict: VerdictWord
    expected: str
    seen: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    baseline_from_s: float | None = None
    fault_from_s: float | None = None
    """``None`` where nothing was injected."""
    fault_to_s: float | None = None
    recovered_at_s: float | None = None
    finished_at_s: float | None = None
    states: Sequence[StateChange] = ()
    restored: bool = True
    """False where a fault was injected and could not be undone: "system not restored"."""
    problems: Sequence[str] = ()
    judgements: Sequence[Judgement] = ()
    """One for each hypothesis that was judged, in the order of their weight."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A scenario that cannot run on the target, and why: neither passed nor failed."""

    scenario: str
    title: str
    reason: str
    at_s: float


def as_json(verdict: Verdict) -> dict[str, Any]:
    """JSON values of a verdict; ``null`` is "no value"."""
    return asdict(verdict)


def write_verdicts(folder: Path, verdicts: Sequence[Verdict]) -> None:
    """Write ``verdicts.json`` whole or not at all."""
    _write(folder / VERDICTS_FILE, [as_json(verdict) for verdict in verdicts])


def write_skipped(folder: Path, skipped: Sequence[Skipped]) -> None:
    """Write ``skipped.json`` whole or not at all."""
    _write(folder / SKIPPED_FILE, [asdict(one) for one in skipped])


def _write(path: Path, values: Sequence[Mapping[str, Any]]) -> None:
    write_whole(path, json.dumps(values, indent=1) + "\n")
