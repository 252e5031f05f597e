"""A stand-in for a tokenizer: text to numbered pieces of about four characters.

Equal text gives equal pieces, so shared prefixes stay shared; counts are near, not equal, to a model's tokens.
"""

import re
from collections.abc import Mapping, Sequence

__all__ = ["TextPieces"]

_PIECE = re.compile(r" ?\w{1,4}|\s+|[^\w\s]")


class TextPieces:
    """Numbers pieces in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def token_ids(self, text: str) -> list[int]:
        """Numbers of the pieces of a text."""
        numbers = self._numbers
        return [numbers.setdefault(piece, len(numbers)) for piece in _PIECE.findall(text)]

    def chat(self, messages: Sequence[object]) -> list[int]:
        """A chat in the manner of a chat template, ending where the assistant's reply begins.

        The ids of a chat that goes on begin with those of the chat before and of its reply. Raises ValueError
        where a message has no role or its content is not text.
        """
        tokens: list[int] = []
        for message in messages:
            if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
                raise ValueError("a message has no role")
            content = message.get("content")
            if not isinstance(content, str):
                raise ValueError("the content of a message is not text")
            tokens += self._header(message["role"]) + self.token_ids(content) + self.token_ids("\n")
        return tokens + self._header("assistant")

    def _header(self, role: str) -> list[int]:
        return self.token_ids(f"<|{role}|>\n")
