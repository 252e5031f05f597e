"""Opening what a user names as a trace: a file, gzip or not, or ``-`` for standard input."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from hitcurve.errors import UsageError

__all__ = ["STANDARD_INPUT", "open_trace"]

STANDARD_INPUT = Path("-")

_GZIP = b"\x1f\x8b"
_REFUSED = {
    b"\x28\xb5\x2f\xfd": ("zstd data", "zstd -dc"),
    b"BZh": ("bzip2 data", "bzip2 -dc"),
    b"\xfd7zXZ": ("xz data", "xz -dc"),
}
_LONGEST_MAGIC = 5


@contextmanager
def open_trace(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a trace, unpacked. Raises UsageError where it cannot be read or unpacked."""
    try:
        if path == STANDARD_INPUT:
            yield _unpacked(path, cast("BufferedReader", sys.stdin.buffer))
        else:
            with path.open("rb") as file:
                yield _unpacked(path, file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(f"{path} is damaged gzip data: {error}.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from None


def _unpacked(path: Path, file: BufferedReader) -> BinaryIO:
    magic = file.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]
    if magic.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    for start, (kind, command) in _REFUSED.items():
        if magic.startswith(start):
            raise UsageError(f"{path} holds {kind}; unpack it first: {command} {path} | hitcurve ... -")
    return file
