"""What of a request was sent to the replay, so that every hash and every token is sent once."""

from collections.abc import Sequence
from typing import Any

from hitcurve_engine.recording.request_reading import plain_hashes

__all__ = ["SentRequest"]


class SentRequest:
    """One request under way."""

    __slots__ = ("blocks", "hashes", "last_hash", "needs_tokens")

    def __init__(self, needs_tokens: bool) -> None:
        self.needs_tokens = needs_tokens
        self.hashes = 0
        self.last_hash: Any = None
        self.blocks = 0
        """Blocks whose tokens were sent, or need not be."""

    def new_hashes(self, hashes: Sequence[Any]) -> tuple[int, list[Any]]:
        """Those that were not sent, and the number of the first of them; from 0 on where the list is another."""
        first = self.hashes
        if first:
            if first > len(hashes) or hashes[first - 1] != self.last_hash:
                # Not the list that it was: a session of streamed input went on with other tokens.
                first = self.blocks = 0
            elif first == len(hashes):
                return first, []
        new: list[Any] = list(hashes[first:])
        self.hashes = first + len(new)
        if not new:
            return first, new
        self.last_hash = last = new[-1]
        return first, new if type(last) is bytes else plain_hashes(new)

    def new_tokens(self, request: Any | None, known: int, end: int, size: int) -> tuple[int, list[int] | None]:
        """The first block, from ``known`` on and before ``end``, that was not sent, and the tokens from it on."""
        start = max(self.blocks, known)
        if start >= end or request is None:
            return start, None
        tokens: list[int] = request.all_token_ids[start * size : end * size]
        self.blocks = start + len(tokens) // size
        return start, tokens
