"""The manifest of recorded pages: a list of scrapes in order of time, each with the file that holds its body."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hitcurve.errors import UsageError
from hitcurve.scrape import Scrape

__all__ = ["Entry", "backward_steps", "load_manifest", "scrapes"]

_LARGEST: Final = 1e15
_NAME: Final = "scrapes.json"
_RUN_FOLDER: Final = "readings.jsonl"
"""What a run of ours writes instead: what was derived from pages, not the pages."""
_EXAMPLE: Final = '{"at_s": 0, "target": "http://engine:8000/metrics", "status": 200, "file": "t0.prom"}'


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded scrape; ``path`` is ``None`` where it brought no body."""

    at_s: float
    target: str
    status: int | None
    path: Path | None
    content_type: str | None
    error: str | None


def load_manifest(path: Path) -> tuple[Entry, ...]:
    """The entries of ``path``, a manifest or a folder with one called ``scrapes.json``.

    Raises UsageError for anything unreadable, naming the entry (from 1) and what to do.
    """
    manifest = path / _NAME if path.is_dir() else path
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if (path / _RUN_FOLDER).is_file():
            raise UsageError(
                f"{path} is a run folder, which holds no pages; use 'hitcurve report {path}'."
            ) from error
        what = f"folder {path} has no {_NAME}" if path.is_dir() else f"there is no manifest {path}"
        raise UsageError(f"{what}; name a folder with {_NAME} or a manifest file.") from error
    except OSError as error:
        raise UsageError(
            f"manifest {manifest} cannot be read ({error.strerror}); name a readable file."
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"manifest {manifest} is not JSON ({error}); it must be a list like [{_EXAMPLE}]."
        ) from error
    if not isinstance(content, list) or not content:
        problem = "is an empty list" if content == [] else "is not a list"
        raise UsageError(f"manifest {manifest} {problem}; it must list scrapes like [{_EXAMPLE}].")
    return tuple(_entry(values, number, manifest) for number, values in enumerate(content, 1))


def backward_steps(entries: tuple[Entry, ...]) -> Iterator[str]:
    """A remark for each entry whose time is before its target's last one: the target starts anew there."""
    last_s: dict[str, float] = {}
    for number, entry in enumerate(entries, 1):
        before_s = last_s.get(entry.target, entry.at_s)
        if entry.at_s < before_s:
            yield (
                f"entry {number} of {entry.target} is {before_s - entry.at_s:g} s before the one above it; "
                "nothing is joined over it, list the scrapes in order of time."
            )
        last_s[entry.target] = entry.at_s


def scrapes(entries: tuple[Entry, ...], on_scrape: Callable[[], None] = lambda: None) -> Iterator[Scrape]:
    """The scrapes of a manifest, bodies read one at a time; ``on_scrape`` is called after each."""
    for number, entry in enumerate(entries, 1):
        body = None
        if entry.path is not None:
            try:
                body = entry.path.read_bytes()
            except OSError as error:
                raise UsageError(
                    f"entry {number}: file {entry.path} cannot be read ({error.strerror}); "
                    "make it readable, or leave 'file' out where the scrape brought no body."
                ) from error
        yield Scrape(
            at_s=entry.at_s,
            monotonic_s=entry.at_s,
            target=entry.target,
            status=entry.status,
            body=body,
            content_type=entry.content_type,
            error=entry.error,
        )
        on_scrape()


def _entry(values: Any, number: int, manifest: Path) -> Entry:
    where = f"manifest {manifest}, entry {number}"
    if not isinstance(values, dict):
        raise UsageError(f"{where} is not an object; write it like {_EXAMPLE}.")
    missing = [key for key in ("at_s", "target", "status") if key not in values]
    if missing:
        raise UsageError(f"{where} lacks {_quoted(missing)}; write it like {_EXAMPLE}.")
    at_s, status = values["at_s"], values["status"]
    if not _is_number(at_s):
        raise UsageError(f"{where}: 'at_s' is {json.dumps(at_s)}; give seconds as a number.")
    if status is not None and (not _is_number(status) or status != int(status)):
        raise UsageError(
            f"{where}: 'status' is {json.dumps(status)}; give the HTTP status, or null for no answer."
        )
    for key in ("target", "file", "content_type", "error"):
        if not isinstance(values.get(key), str) and (key == "target" or values.get(key) is not None):
            raise UsageError(f"{where}: '{key}' is {json.dumps(values[key])}; give a text.")
    name = values.get("file")
    path = None if name is None else manifest.parent / name
    if path is not None and not path.is_file():
        raise UsageError(
            f"{where}: there is no file {path}; put it there, or leave 'file' out if the scrape brought no body."
        )
    return Entry(
        at_s=at_s,
        target=values["target"],
        status=None if status is None else int(status),
        path=path,
        content_type=values.get("content_type"),
        error=values.get("error"),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _quoted(names: list[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)
