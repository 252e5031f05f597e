"""Reading a run folder (``docs/run_folder.md``) back into records."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hitcurve.errors import UsageError
from hitcurve.reading import Reading, reading_from_json
from hitcurve.yaml_lines import load_yaml
from hitcurve_chaos.report.json_shapes import Misfit, check
from hitcurve_chaos.verdict import SKIPPED_FILE, VERDICTS_FILE, Skipped, Verdict

__all__ = ["RequestRow", "RunFolder", "load_run_folder"]

T = TypeVar("T")

_LAST_MOMENT_S = 253402300799.0
"""The end of the year 9999, Unix seconds; a later time cannot be a time of a run."""
_CURE = "restore the file as the run wrote it"


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
    skipped: list[dict[str, Any]]
    """Scenarios that could not run."""
    cut_lines: int
    """Lines that were cut off (a run that was killed while writing)."""


@dataclass(frozen=True, slots=True)
class _Engine:
    kind: str
    model: str
    version: str | None


@dataclass(frozen=True, slots=True)
class _Run:
    """What the report needs of ``run.json``."""

    hitcurve_version: str
    seed: int
    started_at_s: float
    engine: _Engine


@dataclass(frozen=True, slots=True)
class _Step:
    """One line of the journal."""

    at_s: float
    scenario: str
    event: str
    detail: Mapping[str, Any]


def load_run_folder(folder: Path) -> RunFolder:
    """Read a run folder. Raises UsageError where it is not one; a run that was cut short is still read."""
    settings = folder / "run.json"
    if not settings.is_file():
        raise UsageError(f"{folder} is not a run folder: it holds no run.json; name a folder written by a run.")
    verdicts, skipped = folder / VERDICTS_FILE, folder / SKIPPED_FILE
    cut = [0]
    readings: dict[tuple[str, str], list[Reading]] = {}
    for reading in _rows(folder / "readings.jsonl", Reading, reading_from_json, cut):
        readings.setdefault((reading.target, reading.engine), []).append(reading)
    return RunFolder(
        folder=folder,
        run=_document(settings, _Run),
        readings=readings,
        requests=list(_rows(folder / "requests.jsonl", RequestRow, _request, cut)),
        verdicts=_document(verdicts, list[Verdict]) if verdicts.is_file() else [],
        journal=list(_rows(folder / "journal.jsonl", _Step, dict, cut)),
        skipped=_document(skipped, list[Skipped]) if skipped.is_file() else [],
        cut_lines=cut[0],
    )


def _rows(file: Path, kind: Any, build: Callable[[Any], T], cut: list[int]) -> Iterator[T]:
    """The lines of a file, each checked to be what ``kind`` says; a last line without its end is left out."""
    if not file.is_file():
        return
    lines = _read(file).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                cut[0] += 1
                return
            raise _unreadable(file, number, "is not JSON") from error
        try:
            _check(row, kind)
            built = build(row)
        except (Misfit, TypeError) as error:
            raise _unreadable(file, number, str(error)) from error
        yield built


def _request(row: dict[str, Any]) -> RequestRow:
    return RequestRow(
        at_s=float(row["at_s"]),
        load=row["load"],
        outcome=row["outcome"],
        ttft_s=row.get("ttft_s"),
        prompt_tokens=row.get("prompt_tokens"),
        cached_tokens=row.get("cached_tokens"),
    )


def _document(file: Path, kind: Any) -> Any:
    """The JSON of a whole file, checked to be what ``kind`` says."""
    data = _read(file)
    try:
        document = json.loads(data)
    except json.JSONDecodeError as error:
        raise _unreadable(file, error.lineno, f"is not JSON ({error.msg})") from error
    except UnicodeDecodeError as error:
        raise _unreadable(file, data.count(b"\n", 0, error.start) + 1, "is not UTF-8 text") from error
    except RecursionError as error:
        raise _unreadable(file, 1, "is nested too deep") from error
    try:
        _check(document, kind)
    except Misfit as error:
        raise _unreadable(file, _line_of(file, error.way), str(error)) from error
    return document


def _check(value: Any, kind: Any) -> None:
    check(value, kind)
    for name in ("at_s", "started_at_s"):
        if isinstance(value, dict) and name in value and not 0 <= value[name] <= _LAST_MOMENT_S:
            raise Misfit((name,), "is not a time in Unix seconds")


def _line_of(file: Path, way: tuple[str | int, ...]) -> int:
    """Where the value stands to which ``way`` leads; JSON as runs write it is YAML too."""
    try:
        place = load_yaml(file, example="docs/run_folder.md")
        for step in way:
            assert place.parts is not None
            place = place.parts[step]  # type: ignore[index]
    except (UsageError, AssertionError, LookupError):
        return 1
    return place.line


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}); make it readable.") from error


def _unreadable(file: Path, line: int, what: str) -> UsageError:
    return UsageError(f"{file}:{line}: {what}; {_CURE}.")
