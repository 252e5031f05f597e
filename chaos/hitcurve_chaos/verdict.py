"""The verdict on one scenario, as ``verdicts.json`` holds it (docs/run_folder.md)."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["VERDICTS_FILE", "Number", "StateChange", "Verdict", "VerdictWord", "as_json", "write_verdicts"]

VERDICTS_FILE = "verdicts.json"

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


def as_json(verdict: Verdict) -> dict[str, Any]:
    """JSON values of a verdict; ``null`` is "no value"."""
    return asdict(verdict)


def write_verdicts(folder: Path, verdicts: Sequence[Verdict]) -> None:
    """Write ``verdicts.json`` whole or not at all."""
    path = folder / VERDICTS_FILE
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps([as_json(verdict) for verdict in verdicts], indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)
