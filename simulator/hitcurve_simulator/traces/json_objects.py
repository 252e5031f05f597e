"""A file to JSON values, each with its line: JSON lines, one JSON list, or one object over many lines."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from hitcurve.errors import UsageError
from hitcurve_simulator.traces.opening import open_trace
from hitcurve_simulator.traces.row import LineFinding

__all__ = ["Lines", "read_objects", "stream_objects"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_LINE_BYTES = 64 << 20
"""A line is one request, or one batch of events; a million token ids are 8 MB."""
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"

Lines = list[tuple[int, object]]


def read_objects(path: Path, on_line: Callable[[], None]) -> tuple[Lines, list[LineFinding]]:
    """JSON values with their lines; of a file that is one JSON list, its items with their places.

    Also the lines that are no JSON. Raises UsageError where the file cannot be read.
    """
    rejected: list[LineFinding] = []
    return list(stream_objects(path, on_line, rejected.append)), rejected


def stream_objects(
    path: Path, on_line: Callable[[], None], reject: Callable[[LineFinding], None]
) -> Iterator[tuple[int, object]]:
    """The same one after the other; only a file that is one JSON value is held as a whole."""
    with open_trace(path) as file:
        for number, (line, text) in enumerate(_lines(path, file)):
            on_line()
            if number == 0:
                if text.lstrip().startswith(b"[") and not _is_one_of_many(text):
                    yield from _items(path, text + file.read())
                    return
                if text.strip() == b"{":
                    yield line, _document(path, text + file.read())
                    return
            try:
                yield line, json.loads(text)
            except UnicodeDecodeError:
                reject(LineFinding(line, "not UTF-8 text"))
            except (ValueError, RecursionError):
                reject(LineFinding(line, f"not JSON: {_start_of(text)}"))


def _is_one_of_many(text: bytes) -> bool:
    """Whether a line is a batch of KV events, a list that begins with its time, and no list of rows."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return bool(value) and isinstance(value[0], int | float)


def _items(path: Path, text: bytes) -> Lines:
    return list(enumerate(_document(path, text), 1))


def _document(path: Path, text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "list" if text.lstrip().startswith(b"[") else "object"
        raise UsageError(f"{path} begins like a JSON {kind} and is none: {error}.") from None


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers. UsageError at one that is too long to be held.

    The first line of a file that is one JSON list may be longer: its beginning comes as a line, the rest does not.
    """
    for line, text in enumerate(iter(lambda: file.readline(_LONGEST_LINE_BYTES + 1), b""), 1):
        if len(text) > _LONGEST_LINE_BYTES and not (line == 1 and text.lstrip().startswith(b"[")):
            raise UsageError(
                f"line {line} of {path} is longer than {_LONGEST_LINE_BYTES >> 20} MiB; write one request a line."
            )
        if line == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
            if text.startswith(_LFS_POINTER):
                raise UsageError(_lfs_sentence(path, file.read(1000)))
        if text.strip():
            yield line, text


def _lfs_sentence(path: Path, rest: bytes) -> str:
    size = next((part[5:].strip() for part in rest.splitlines() if part.startswith(b"size ")), b"?")
    return f"{path}: this is a Git LFS pointer, fetch the real file ({size.decode('ascii', 'replace')} bytes)"


def _start_of(text: bytes) -> str:
    shown = text.strip().decode("utf-8", "replace")
    return repr(shown if len(shown) <= 40 else shown[:37] + "...")
