"""Asking a publisher for batches again.

The answer is one message a batch, ``(b"", [topic,] number, payload)``, and an end mark whose number is -1.
Publishers before vLLM 0.33 drop what a slow reader cannot take, also the end mark, so an answer with holes is
asked for again.
"""

import asyncio
from typing import Final

import zmq
import zmq.asyncio

__all__ = ["Replay"]

_END: Final = b"\xff" * 8
_ANSWER_S: Final = 5.0
"""Longest wait for the next message of an answer."""
_MOST_BYTES: Final = 1 << 28
_MOST_TRIES: Final = 32

Numbered = tuple[int, bytes]


class Replay:
    """One address that batches can be asked for at. Every question has a socket of its own."""

    def __init__(self, context: zmq.asyncio.Context, endpoint: str, most_bytes: int, answer_s: float = _ANSWER_S):
        self._context = context
        self._endpoint = endpoint
        self._most_bytes = most_bytes
        self._answer_s = answer_s

    async def since(self, number: int) -> list[Numbered] | None:
        """Batches from ``number`` on as far as the publisher still has them; ``None`` where nobody answers."""
        found: dict[int, bytes] = {}
        missing = number
        for _ in range(_MOST_TRIES):
            answer, ended = await self._ask(missing)
            if not (answer or ended or found):
                return None
            found.update(answer)
            hole = _first_hole(found)
            if (hole is None and ended) or not answer or sum(map(len, found.values())) > _MOST_BYTES:
                break
            missing = max(found) + 1 if hole is None else hole
        return sorted(found.items())

    async def _ask(self, number: int) -> tuple[dict[int, bytes], bool]:
        """What came until the end mark or a silence, and whether the end mark came."""
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.IPV6, self._endpoint.startswith("tcp://["))
        socket.setsockopt(zmq.MAXMSGSIZE, self._most_bytes)
        found: dict[int, bytes] = {}
        size = 0
        try:
            socket.connect(self._endpoint)
            await socket.send_multipart([b"", number.to_bytes(8, "big")])
            while size <= _MOST_BYTES:
                frames = await asyncio.wait_for(socket.recv_multipart(), self._answer_s)
                if len(frames) < 3 or len(frames[-2]) != 8:
                    continue
                if frames[-2] == _END:
                    return found, True
                found[int.from_bytes(frames[-2], "big")] = frames[-1]
                size += len(frames[-1])
        except (TimeoutError, zmq.ZMQError):
            pass
        finally:
            socket.close()
        return found, False


def _first_hole(found: dict[int, bytes]) -> int | None:
    expected = None
    for number in sorted(found):
        if expected is not None and number != expected:
            return expected
        expected = number + 1
    return None
