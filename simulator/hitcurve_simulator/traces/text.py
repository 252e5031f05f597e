"""Text to tokens, without a model: numbered pieces of about four characters, or bytes.

Equal text gives equal tokens, so shared prefixes stay shared; counts of pieces are near, not equal, to a model's.
"""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Protocol, runtime_checkable

__all__ = ["ChatTokenizer", "DigestedPieces", "Encoder", "TextPieces", "Tokenizer", "Utf8Bytes", "chat_tokens"]

_PIECE = re.compile(r" ?\w{1,4}|\s+|[^\w\s]")


class Encoder(Protocol):
    """Text to token ids."""

    def token_ids(self, text: str) -> list[int]: ...


class Tokenizer(Encoder, Protocol):
    """Text to token ids and back."""

    def text(self, token_ids: Sequence[int]) -> str: ...


@runtime_checkable
class ChatTokenizer(Protocol):
    """A tokenizer that knows its model's chat template."""

    def chat_token_ids(self, messages: Sequence[object]) -> list[int]:
        """Tokens up to where the reply begins. Raises ValueError for messages that the template refuses."""


class TextPieces:
    """Numbers pieces in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._pieces: list[str] = []

    def token_ids(self, text: str) -> list[int]:
        """Numbers of the pieces of a text."""
        numbers, found = self._numbers, _PIECE.findall(text)
        try:
            return [numbers[piece] for piece in found]
        except KeyError:
            return [numbers.setdefault(piece, len(numbers)) for piece in found]

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of pieces that were met."""
        if len(self._pieces) < len(self._numbers):
            self._pieces = list(self._numbers)
        return "".join([self._pieces[number] for number in token_ids])


class DigestedPieces:
    """Pieces by numbers that depend on the piece alone, so that several processes agree on them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def token_ids(self, text: str) -> list[int]:
        """Numbers of the pieces of a text, each of 62 bits."""
        found = _PIECE.findall(text)
        for piece in found:
            if piece not in self._numbers:
                digest = blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                self._numbers[piece] = int.from_bytes(digest, "big") >> 2
        return [self._numbers[piece] for piece in found]


class Utf8Bytes:
    """Every byte of the UTF-8 form is a token."""

    def token_ids(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))

    def text(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode("utf-8", "replace")


def chat_tokens(tokenizer: Encoder, messages: Sequence[object]) -> list[int]:
    """A chat by the tokenizer's own template, else in the manner of one, ending where the reply begins.

    The ids of a chat that goes on begin with those of the chat before and of its reply. Raises ValueError where a
    message has no role or its content is not text.
    """
    if isinstance(tokenizer, ChatTokenizer):
        return tokenizer.chat_token_ids(messages)
    tokens: list[int] = []
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError("a message has no role")
        tokens += _header(tokenizer, message["role"])
        tokens += tokenizer.token_ids(_content(message)) + tokenizer.token_ids("\n")
    return tokens + _header(tokenizer, "assistant")


def _header(tokenizer: Encoder, role: str) -> list[int]:
    return tokenizer.token_ids(f"<|{role}|>\n")


def _content(message: Mapping[str, object]) -> str:
    """Text of a message: its content, the text parts of it, and the tools that it calls."""
    content, calls = message.get("content"), message.get("tool_calls")
    called = json.dumps(calls) if calls else ""
    if isinstance(content, str):
        return content + called
    if content is None and calls:
        return called
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts)) + called
    raise ValueError("the content of a message is not text")
