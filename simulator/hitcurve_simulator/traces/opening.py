"""Opening what a user names as a trace: a file, gzip, zstd or plain, or ``-`` for standard input."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, cast

from hitcurve.errors import UsageError

__all__ = ["STANDARD_INPUT", "open_trace"]

STANDARD_INPUT = Path("-")

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_REFUSED = {
    b"BZh": ("bzip2 data", "bzip2 -dc"),
    b"\xfd7zXZ": ("xz data", "xz -dc"),
}
_LONGEST_MAGIC = 5
_CHUNK_BYTES = 1 << 16
_PIECE_BYTES = 1 << 8
"""What zstd unpacks at once, to 8 MiB at most: four packed bytes can stand for a block of 128 KiB."""


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
        raise UsageError(f"{path} cannot be read: {error.strerror or error}; give a file that can.") from None


def _unpacked(path: Path, file: BufferedReader) -> BinaryIO:
    magic = file.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]
    if magic.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if magic.startswith(_ZSTD):
        return _zstd(path, file)
    for start, (kind, command) in _REFUSED.items():
        if magic.startswith(start):
            raise UsageError(f"{path} holds {kind}; unpack it first: {command} {path} | hitcurve ... -")
    return file


def _zstd(path: Path, file: BufferedReader) -> BinaryIO:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise UsageError(
            f"{path} holds zstd data, which needs the package 'zstandard'; install it with: "
            f"pip install 'hitcurve[zstd]', or unpack it first: zstd -dc {path} | hitcurve ... -"
        ) from None
    return io.BufferedReader(_Unzstd(path, file, zstandard.ZstdDecompressor().decompressobj))


class _Unzstd(io.RawIOBase):
    """Unpacks frame after frame. What is damaged or cut off is said in one sentence."""

    def __init__(self, path: Path, file: BufferedReader, new_frame: Callable[[], Any]) -> None:
        self._path = path
        self._file = file
        self._new_frame = new_frame
        self._frame: Any = None
        self._packed = memoryview(b"")
        self._plain = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._plain:
            if not self._packed:
                self._packed = memoryview(self._file.read(_CHUNK_BYTES))
            if not self._packed:
                if self._frame is not None:
                    raise UsageError(f"{self._path} is damaged zstd data: it is cut off.")
                return 0
            self._unpack()
        size = min(len(buffer), len(self._plain))
        buffer[:size], self._plain = self._plain[:size], self._plain[size:]
        return size

    def _unpack(self) -> None:
        self._frame = self._frame or self._new_frame()
        piece, self._packed = self._packed[:_PIECE_BYTES], self._packed[_PIECE_BYTES:]
        try:
            self._plain = memoryview(self._frame.decompress(piece))
        except Exception as error:  # The package's own class, which is not imported here.
            raise UsageError(f"{self._path} is damaged zstd data: {error}.") from None
        if self._frame.eof:
            self._packed = memoryview(self._frame.unused_data + bytes(self._packed))
            self._frame = None
