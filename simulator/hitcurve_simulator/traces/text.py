"""A stand-in for a tokenizer: text to numbered pieces of about four characters.

Equal text gives equal pieces, so shared prefixes stay shared; counts are near, not equal, to a model's tokens.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["TextPieces", "text_of_messages"]

_PIECE = re.compile(r" ?\w{1,4}|\s+|[^\w\s]")


class TextPieces:
    """Numbers pieces in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def token_ids(self, text: str) -> list[int]:
        """Numbers of the pieces of a text."""
        numbers = self._numbers
        return [numbers.setdefault(piece, len(numbers)) for piece in _PIECE.findall(text)]


def text_of_messages(messages: Iterable[Mapping[str, Any]]) -> str:
    """A chat as one text, in the manner of a chat template.

    Raises ValueError where a message has no role or its content is not text.
    """
    parts = []
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError("a message has no role")
        content = message.get("content")
        if not isinstance(content, str):
            raise ValueError("the content of a message is not text")
        parts.append(f"<|{message['role']}|>\n{content}\n")
    return "".join(parts)
