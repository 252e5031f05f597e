"""``--tokenizer FILE``: prompts of an exact number of a local tokenizer's tokens."""

import json
from pathlib import Path
from typing import Any

import pytest

from hitcurve_loadtests.prompts import common_words

KNOWN = 60


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> Path:
    """A tokenizer.json that knows sixty common words; all else it takes letter by letter."""
    tokenizers = pytest.importorskip("tokenizers", reason="the package 'tokenizers' is not installed")
    letters = [" ", *map(chr, range(ord("!"), ord("~") + 1))]
    words = [f" {word}" for word in common_words()[:KNOWN]]
    vocabulary = {token: number for number, token in enumerate([*letters, *words, "?unknown?"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="?unknown?"))
    known = "|".join(sorted(words, key=len, reverse=True))
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(f"(?:{known})(?![a-z])|."), "isolated")
    tokenizer.pre_tokenizer = split
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_prompts_have_exactly_as_many_tokens_as_asked_for(
    engine: Any, load: Any, tokenizer_file: Path, good_stream: Any
) -> None:
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    engine.answer = lambda exchange: good_stream(["w"], prompt_tokens=count(exchange.body["prompt"]))
    sizes = ("--groups", 2, "--prefix-tokens", 70, "--suffix-tokens", 13)
    words = ("shared-system-prompt", "--host", engine.url, "--users", 1, "--requests", 6, *sizes)
    ended = load(*words, "--tokenizer", tokenizer_file, "--json")
    assert ended.code == 0, ended.err
    prompts = [exchange.body["prompt"] for exchange in engine.exchanges]
    assert [count(prompt) for prompt in prompts] == [83] * 6
    # Words of one token each, not one letter a token.
    assert all(len(prompt) > 3 * 83 for prompt in prompts)
    assert len({prompt[:200] for prompt in prompts}) <= 2
    assert ended.summary["tokens_of"] == str(tokenizer_file)
    assert ended.summary["intended"]["prompt_tokens_off"] == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot be read"), ("{}", "cannot be read"), ("pairs", "it has too few words of one token")],
)
def test_a_file_that_is_no_use_is_named(
    engine: Any, load: Any, tokenizer_file: Path, content: str | None, says: str
) -> None:
    if content is None:
        tokenizer_file.unlink()
    elif content == "pairs":
        values = json.loads(tokenizer_file.read_text())
        values["pre_tokenizer"]["pattern"] = {"Regex": ".{1,2}"}
        tokenizer_file.write_text(json.dumps(values))
    else:
        tokenizer_file.write_text(content)
    ended = load("unique", "--host", engine.url, "--requests", 1, "--tokenizer", tokenizer_file)
    assert ended.code == 2
    assert ended.err.startswith(f"hitcurve: --tokenizer {tokenizer_file}")
    assert says in ended.err
    assert ended.err.count("\n") == 1
