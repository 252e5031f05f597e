"""Messages between the engine's process and the one that replays: four bytes of length, then a marshalled tuple.

Both ends are the same code in the same interpreter, and the pipe has no other end.
"""

import marshal
import os
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["CLOSE", "EVENTS", "FLUSH", "OPEN", "STATUS", "pack", "unpack"]

OPEN: Final = 0
"""(OPEN, fields of CacheShape, of Settings, of EngineFacts)"""
EVENTS: Final = 1
"""(EVENTS, plain events)"""
STATUS: Final = 2
"""(STATUS, fields of PatchStatus)"""
FLUSH: Final = 3
"""(FLUSH, number): answered by a line once all before is replayed"""
CLOSE: Final = 4
"""(CLOSE, until when on the monotonic clock)"""

_VERSION: Final = 2
"""Of the marshal format: the later ones look every object up in a table first."""
_READ_BYTES: Final = 1 << 18


def pack(message: tuple[Any, ...]) -> bytes:
    """The bytes of a message. Raises ValueError where it holds something else than plain values."""
    body = marshal.dumps(message, _VERSION)
    return len(body).to_bytes(4, "big") + body


def unpack(pipe: int) -> Iterator[tuple[Any, ...]]:
    """Messages as they come, until the other end is closed; an unfinished one is dropped."""
    held = bytearray()
    while True:
        while len(held) >= 4 and len(held) >= 4 + (length := int.from_bytes(held[:4], "big")):
            message: tuple[Any, ...] = marshal.loads(held[4 : 4 + length])
            del held[: 4 + length]
            yield message
        more = os.read(pipe, _READ_BYTES)
        if not more:
            return
        held += more
