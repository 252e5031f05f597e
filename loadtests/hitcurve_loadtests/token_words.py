"""Finds words that are exactly one token each for a tokenizer, so that texts of an exact length can be made.

A word counts where it keeps its one token wherever it stands: the list is taken as a whole, behind itself, and
counted once more. Byte-level tokenizers have no such words and need none.
"""

import itertools
from collections.abc import Callable, Sequence

from hitcurve_loadtests.prompts import common_words, make_text
from hitcurve_loadtests.texts import ByteTexts, TextMaker, WordTexts

__all__ = ["CountTokens", "text_maker"]

CountTokens = Callable[[str], int]
"""Tokens of a text, no special tokens added."""

_FEWEST_WORDS = 48
_PROBE_BYTES = 200


def text_maker(count: CountTokens) -> TextMaker | None:
    """A maker of texts of exact length for the tokenizer behind ``count``; ``None`` where none was found."""
    if count(make_text(_PROBE_BYTES, "probe")) == _PROBE_BYTES:
        return ByteTexts()
    words = _single(tuple(f" {word}" for word in common_words()), count)
    while len(words) >= _FEWEST_WORDS:
        mixed = [word for pair in zip(words, reversed(words), strict=True) for word in pair]
        if count("".join(mixed)) == len(mixed):
            return WordTexts(tuple(words))
        words = _additive(words, count)
    return None


def _single(words: Sequence[str], count: CountTokens) -> list[str]:
    """Those that are one token, found by halving so that few calls are needed where most are."""
    if not words:
        return []
    if count("".join(words)) == len(words):
        return list(words)
    if len(words) == 1:
        return []
    middle = len(words) // 2
    return _single(words[:middle], count) + _single(words[middle:], count)


def _additive(words: Sequence[str], count: CountTokens) -> list[str]:
    """Without the words that merge with what stands before or behind them."""
    return [
        word
        for before, word in itertools.pairwise([words[-1], *words])
        if count(before + word) == 2 and count(word + before) == 2
    ]
