"""Opens a trace and tells its format by what is in it."""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_loadtests.replay.agent_sessions import SESSIONS_APART_S, session_rows
from hitcurve_loadtests.replay.hashed import BAILIAN_BLOCK, MOONCAKE_BLOCK, hashed_row
from hitcurve_loadtests.replay.lengths_only import COLUMNS, length_rows
from hitcurve_loadtests.replay.recorded_text import conversation_rows, logged_row
from hitcurve_loadtests.replay.rows import Trace, TraceRow, checked_order

__all__ = ["FORMATS", "open_trace"]

FORMATS = "Mooncake, Bailian, kv-cache-tester (a file or a folder), Azure CSV, ShareGPT, logs of OpenAI requests"
_TAR, _TAR_AT = b"ustar", 257
"""POSIX.1-1988: the magic of a tar header, and where it stands."""
_LOGGED = ("messages", "prompt", "body", "request")


def open_trace(path: Path, block_size: int | None = None) -> Trace:
    """All requests of a file, or of a folder of sessions; UsageError naming file, line and cure.

    ``block_size`` replaces the tokens of a hash id where the format does not state them.
    """
    if path.is_dir():
        return _sessions([(file, _whole(file)) for file in sorted(path.rglob("*.json"))], path)
    text = _read(path)
    if text.lstrip("\ufeff").startswith(COLUMNS[0]):
        rows = sorted(length_rows(text.lstrip("\ufeff").splitlines(), str(path)), key=lambda row: row.at_s or 0.0)
        return Trace("azure", 1, checked_order(rows, path))
    objects = list(_objects(text, path))
    first = objects[0][1] if objects else {}
    if isinstance(first.get("requests"), list):
        return _sessions([(path, values) for _, values in objects], path)
    if "conversations" in first or "conversation" in first:
        said = [row for _, values in objects for row in conversation_rows(values)]
        return Trace("sharegpt", 1, checked_order(said, path), api="chat")
    if "hash_ids" not in first and any(name in first for name in _LOGGED):
        return _log(objects, path)
    return _hashed(objects, path, block_size, bailian="chat_id" in first)


def _hashed(
    objects: list[tuple[str, Mapping[str, Any]]], path: Path, block_size: int | None, *, bailian: bool
) -> Trace:
    size = block_size or (BAILIAN_BLOCK if bailian else MOONCAKE_BLOCK)
    rows = [hashed_row(values, where, size) for where, values in objects]
    return Trace("bailian" if bailian else "mooncake", size, checked_order(rows, path))


def _log(objects: list[tuple[str, Mapping[str, Any]]], path: Path) -> Trace:
    rows = [logged_row(values, where) for where, values in objects]
    if all(row.at_s is not None for row in rows):
        rows.sort(key=lambda row: row.at_s or 0.0)
    chat = any(len(row.messages) != 1 or row.messages[0].role != "user" for row in rows)
    return Trace("openai", 1, checked_order(rows, path), api="chat" if chat else "completions")


def _sessions(found: list[tuple[Path, Mapping[str, Any]]], path: Path) -> Trace:
    sizes: set[int] = set()
    rows: list[TraceRow] = []
    for number, (file, session) in enumerate(found):
        if not isinstance(session.get("requests"), list):
            raise UsageError(f"{file}: not a session of kv-cache-tester, it has no 'requests'; take it out.")
        where = f"{file}" if len(found) == 1 else f"{file} ({number + 1})"
        size, more = session_rows(session, where, number * SESSIONS_APART_S)
        sizes.add(size)
        rows += more
    if len(sizes) > 1:
        raise UsageError(f"{path}: sessions of block sizes {sorted(sizes)}; replay those of one size at a time.")
    rows.sort(key=lambda row: row.at_s or 0.0)
    return Trace("kv-cache-tester", sizes.pop() if sizes else 1, checked_order(rows, path))


def _objects(text: str, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Objects of JSON lines, of a JSON list, or of one JSON value over several lines; with where they stand."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if lines and (lines[0][1].lstrip().startswith("[") or not _is_json(lines[0][1])):
        try:
            whole = json.loads(text)
        except ValueError:
            whole = None
        if whole is not None and not (isinstance(whole, list) and len(lines) > 1 and _is_json(lines[0][1])):
            entries = whole if isinstance(whole, list) else [whole]
            for number, values in enumerate(entries, start=1):
                yield _checked(values, f"{path}, entry {number}")
            return
    for number, line in lines:
        try:
            values = json.loads(line)
        except ValueError as error:
            raise UsageError(
                f"{path}:{number}: not JSON ({error}); a trace holds one JSON object a line."
            ) from error
        yield _checked(values, f"{path}:{number}")


def _checked(values: object, where: str) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(values, dict):
        raise UsageError(f"{where}: not a JSON object; a trace holds one JSON object a line.")
    return where, values


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _whole(file: Path) -> Mapping[str, Any]:
    try:
        return _checked(json.loads(_read(file)), str(file))[1]
    except ValueError as error:
        raise UsageError(f"{file}: not JSON ({error}); take it out of the folder.") from error


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        if data[_TAR_AT:].startswith(_TAR):
            raise UsageError(f"{path} is a tar archive; unpack it and name a file or a folder of it.")
        return data.decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError):
            reason = "it is not UTF-8 text"
        else:
            reason = getattr(error, "strerror", None) or "its gzip data is damaged"
        raise UsageError(
            f"the trace {path} cannot be read ({reason}); name one with --trace: {FORMATS}."
        ) from error
