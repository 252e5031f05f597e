"""Texts of an exact number of tokens, for tokenizers that merge letters to words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve_loadtests.prompts import common_words
from hitcurve_loadtests.texts import ByteTexts, TextMaker, WordTexts
from hitcurve_loadtests.token_words import text_maker

KNOWN = set(common_words()[: len(common_words()) * 3 // 4])


def pieces(text: str) -> list[str]:
    """A tokenizer that knows three words of four, and takes the others letter by letter."""
    found = []
    for word in re.findall(r" ?\w+|\s|[^\w\s]", text):
        found += [word] if word.strip() in KNOWN else list(word)
    return found


@pytest.fixture(scope="module")
def maker() -> TextMaker:
    made = text_maker(lambda text: len(pieces(text)))
    assert made is not None
    return made


@given(tokens=st.integers(1, 600), other=st.integers(1, 600), name=st.integers())
def test_lengths_are_exact_alone_and_behind_one_another(
    maker: TextMaker, tokens: int, other: int, name: int
) -> None:
    one, two = maker.text(tokens, "a", name), maker.text(other, "b", name)
    assert (len(pieces(one)), len(pieces(one + two))) == (tokens, tokens + other)
    assert (maker.count(one), len(maker.tokens(one + two))) == (tokens, tokens + other)
    assert maker.text(tokens + 5, "a", name).startswith(one)


def test_texts_of_other_names_differ_in_their_first_block(maker: TextMaker) -> None:
    assert isinstance(maker, WordTexts)
    assert len({maker.text(12, "seed", number) for number in range(20_000)}) == 20_000


def test_few_calls_are_needed(maker: TextMaker) -> None:
    calls = []

    def count(text: str) -> int:
        calls.append(text)
        return len(pieces(text))

    text_maker(count)
    assert len(calls) < 150


def test_byte_tokenizers_keep_their_text() -> None:
    assert text_maker(len) == ByteTexts()


def test_a_tokenizer_without_such_words_has_no_maker() -> None:
    assert text_maker(lambda text: 2 * len(text)) is None
