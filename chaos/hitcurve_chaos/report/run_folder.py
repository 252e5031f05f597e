"""Reading a run folder (``docs/run_folder.md``) back into records."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hitcurve.errors import UsageError
from hitcurve.reading import Reading, reading_from_json

__all__ = ["RequestRow", "RunFolder", "load_run_folder"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request as the load generator measured it; ``None`` is unknown."""

    at_s: float
    load: str
    outcome: str
    ttft_s: float | None
    prompt_tokens: int | None
    cached_tokens: int | None


@dataclass(frozen=True, slots=True)
class RunFolder:
    """All of a run: settings, readings by engine, requests, verdicts and the journal."""

    folder: Path
    run: dict[str, Any]
    readings: dict[tuple[str, str], list[Reading]]
    """(target, engine) to its readings in order of time."""
    requests: list[RequestRow]
    verdicts: list[dict[str, Any]]
    journal: list[dict[str, Any]]
    cut_lines: int
    """Lines that were cut off (a run that was killed while writing)."""


def load_run_folder(folder: Path) -> RunFolder:
    """Read a run folder. Raises UsageError where it is not one; a run that was cut short is still read."""
    settings = folder / "run.json"
    if not settings.is_file():
        raise UsageError(f"{folder} is not a run folder: it holds no run.json; name a folder written by a run.")
    try:
        run = json.loads(settings.read_text())
    except json.JSONDecodeError as error:
        raise UsageError(f"{settings} is not JSON (line {error.lineno}): {error.msg}.") from error
    if not isinstance(run, dict):
        raise UsageError(f"{settings} must hold one JSON object.")
    cut = [0]
    readings: dict[tuple[str, str], list[Reading]] = {}
    for reading in _rows(folder / "readings.jsonl", reading_from_json, cut):
        readings.setdefault((reading.target, reading.engine), []).append(reading)
    return RunFolder(
        folder=folder,
        run=run,
        readings=readings,
        requests=list(_rows(folder / "requests.jsonl", _request, cut)),
        verdicts=_verdicts(folder / "verdicts.json"),
        journal=list(_rows(folder / "journal.jsonl", dict, cut)),
        cut_lines=cut[0],
    )


def _rows(file: Path, build: Callable[[Any], T], cut: list[int]) -> Iterator[T]:
    if not file.is_file():
        return
    lines = file.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield build(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                cut[0] += 1
                return
            raise UsageError(
                f"{file}, line {number} cannot be read: {error}; restore it or take it out."
            ) from error


def _request(row: dict[str, Any]) -> RequestRow:
    return RequestRow(
        at_s=float(row["at_s"]),
        load=str(row["load"]),
        outcome=str(row["outcome"]),
        ttft_s=row.get("ttft_s"),
        prompt_tokens=row.get("prompt_tokens"),
        cached_tokens=row.get("cached_tokens"),
    )


def _verdicts(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    try:
        verdicts = json.loads(file.read_text())
    except json.JSONDecodeError as error:
        raise UsageError(f"{file} is not JSON (line {error.lineno}): {error.msg}.") from error
    if not isinstance(verdicts, list):
        raise UsageError(f"{file} must hold a list of verdicts.")
    return verdicts
