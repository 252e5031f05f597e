"""Texts by name for one run: some the same in every worker, some that nobody else sends.

``ByteTexts`` counts bytes as tokens; ``WordTexts`` is made of words that are one token each for the engine's own
tokenizer (``hitcurve_loadtests.token_words``), so a text of ``n`` tokens has exactly ``n``.
"""

import hashlib
import random
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hitcurve_loadtests.prompts import make_text

__all__ = ["ByteTexts", "TextMaker", "Texts", "WordTexts"]


class TextMaker(Protocol):
    """Makes text of an exact number of tokens, and splits text into tokens."""

    def text(self, tokens: int, *name: object) -> str:
        """Text that depends on ``name`` and its length alone; texts of other names differ in their first block."""
        ...

    def tokens(self, text: str) -> Sequence[Hashable]:
        """The tokens of a text; equal tokens are equal values."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text that was made here."""
        ...


@dataclass(frozen=True, slots=True)
class ByteTexts:
    """One byte of ASCII is one token."""

    def text(self, tokens: int, *name: object) -> str:
        return make_text(tokens, *name)

    def tokens(self, text: str) -> Sequence[Hashable]:
        return text.encode("utf-8", "replace")

    def count(self, text: str) -> int:
        return len(text)


@dataclass(frozen=True, slots=True)
class WordTexts:
    """Words of one token each, every one with a space in front."""

    words: tuple[str, ...]

    def text(self, tokens: int, *name: object) -> str:
        key = "\x1f".join(map(str, name)).encode()
        digest = hashlib.shake_128(key).digest(2 * tokens)
        count, words = len(self.words), self.words
        return "".join(
            [words[int.from_bytes(digest[at : at + 2], "big") % count] for at in range(0, 2 * tokens, 2)]
        )

    def tokens(self, text: str) -> Sequence[Hashable]:
        return _PIECES.findall(text)

    def count(self, text: str) -> int:
        return text.count(" ")


_PIECES = re.compile(r" ?\w+|\s|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Texts:
    """What a profile draws from: ``seed`` is the run's, ``worker`` tells the processes of one run apart.

    What requests are meant to share comes from ``shared`` and is the same in every worker; what nobody may share
    comes from ``fresh``, whose texts no other worker and no run of another seed has.
    """

    seed: int
    worker: int = 0
    maker: TextMaker = ByteTexts()

    def shared(self, tokens: int, *name: object) -> str:
        return self.maker.text(tokens, self.seed, *name)

    def fresh(self, tokens: int, *name: object) -> str:
        return self.maker.text(tokens, self.seed, *self._worker_name, *name)

    def random(self, name: str) -> random.Random:
        """Random choices of this worker for one purpose."""
        return random.Random(" ".join(map(str, (name, self.seed, *self._worker_name))))

    @property
    def _worker_name(self) -> tuple[object, ...]:
        return (f"worker {self.worker}",) if self.worker else ()
