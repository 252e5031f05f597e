"""The correctness probe on a cache of a few lines: silent on a right one, loud on each kind of wrong one."""

import json
import random
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hitcurve_chaos.calls import Answer
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.correctness import Correctness
from hitcurve_chaos.probe import Probe, ProbeAnswer
from hitcurve_chaos.targets import Target

BLOCK = 16
TARGET = Target("t", "http://engine", "base")


def fingerprint(*parts: Any) -> int:
    """The same in every process, unlike ``hash``."""
    return zlib.crc32(repr(parts).encode())


class TinyEngine:
    """Serves blocks by key; what it answers depends on the blocks it read. ``wrong`` names the planted fault."""

    def __init__(self, wrong: str = "", *, tells_cached: bool = True, margin: float | None = None) -> None:
        self.wrong = wrong
        self.tells_cached = tells_cached
        self.margin = margin
        self._blocks: dict[Any, int] = {}

    def send(self, method: str, url: str, *, json_body: Mapping[str, Any] | None = None, **rest: Any) -> Answer:
        body = dict(json_body or {})
        prompt, model, salt = body["prompt"], body["model"], body.get("cache_salt")
        key = ("" if self.wrong == "salt" else salt, "" if self.wrong == "adapter" else model)
        held, cached, hit = fingerprint(model), 0, True
        most = len(prompt) if self.wrong == "last token" else len(prompt) - 1
        for at in range(0, len(prompt) // BLOCK * BLOCK, BLOCK):
            block = tuple(prompt[at : at + BLOCK])
            key = (block,) if self.wrong == "parent" else (key, block)
            hit = hit and key in self._blocks and at + BLOCK <= most
            held = self._blocks[key] if hit else fingerprint(held, block)
            self._blocks.setdefault(key, held)
            cached += BLOCK * hit
        if self.wrong == "stale output" and cached:
            held += 1
        source = random.Random(fingerprint(held, prompt[len(prompt) // BLOCK * BLOCK :]))
        tokens = [source.randrange(100) for _ in range(body["max_tokens"])]
        choice: dict[str, Any] = {"text": str(tokens), "token_ids": tokens}
        if self.margin is not None:
            choice["logprobs"] = {"top_logprobs": [{"a": -0.1, "b": -0.1 - self.margin} for _ in tokens]}
        details = {"cached_tokens": cached} if self.tells_cached else None
        usage = {"prompt_tokens": len(prompt), "prompt_tokens_details": details}
        return Answer(200, json.dumps({"choices": [choice], "usage": usage}))


def checked(engine: TinyEngine, tmp_path: Path, *, model: str | None = None, salts: bool = True) -> Correctness:
    probe = Probe(TARGET, engine, random.Random(1), SystemClock(), tmp_path / "requests.jsonl", random.Random(2))
    correctness = Correctness(probe, BLOCK, salts)
    correctness.check("now", model=model)
    return correctness


def test_a_right_cache_is_compared_and_found_right(tmp_path: Path) -> None:
    found = checked(TinyEngine(), tmp_path)
    assert found.findings == []
    numbers = found.numbers()
    assert (numbers["wrong_outputs"], numbers["impossible_hit_tokens"]) == (0, 0)
    assert numbers["outputs_compared"] == 4


@pytest.mark.parametrize("requests", [0, 1, 2, 7])
def test_a_check_ends_between_two_requests_when_its_time_is_up(requests: int, tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    probe = Probe(TARGET, TinyEngine(), random.Random(1), SystemClock(), log, random.Random(2))
    correctness, left = Correctness(probe, BLOCK, True), iter([True] * requests + [False])
    correctness.check("now", may_ask=lambda: next(left))
    assert len(log.read_text().splitlines() if log.exists() else []) == requests
    numbers = correctness.numbers()
    assert numbers["outputs_compared"] == {0: 0, 1: 0, 2: 1, 7: 2}[requests]
    assert (numbers["wrong_outputs"] or 0, numbers["unanswered_checks"]) == (0, 0)
    assert correctness.compare(probe.new_tokens(2 * BLOCK), "later").completed


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("salt", "IMPOSSIBLE HIT: now: a salt nobody used found"),
        ("parent", "IMPOSSIBLE HIT: now: another prompt's blocks behind a cached begin found 64 tokens cached"),
        ("last token", "IMPOSSIBLE HIT: all 48 tokens were cached, and nothing was computed"),
        ("stale output", "WRONG OUTPUT: now: a prompt that is cached (32 tokens cached) differs at token 1"),
    ],
)
def test_a_wrong_cache_is_found_out(wrong: str, says: str, tmp_path: Path) -> None:
    found = checked(TinyEngine(wrong), tmp_path)
    assert any(finding.startswith(says) for finding in found.findings), found.findings


def test_blocks_of_another_prompt_give_a_wrong_output_too(tmp_path: Path) -> None:
    found = checked(TinyEngine("parent"), tmp_path, salts=False)
    numbers = found.numbers()
    assert numbers["impossible_hit_tokens"] == 2 * BLOCK
    # Under a salt that is ignored as well there is nothing right to compare with, without salts neither.
    assert numbers["wrong_outputs"] == 0


def test_an_adapter_that_finds_blocks_of_the_base_model_is_wrong_twice(tmp_path: Path) -> None:
    engine = TinyEngine("adapter")
    probe = Probe(TARGET, engine, random.Random(1), SystemClock(), tmp_path / "r.jsonl", random.Random(2))
    correctness = Correctness(probe, BLOCK, True)
    prompt = probe.new_tokens(3 * BLOCK + 1)
    correctness.compare(prompt, "the base model")
    assert correctness.findings == []
    stolen = correctness.first_ever(prompt, "an adapter", model="adapter")
    computed = correctness.first_ever(prompt, "a salt", model="adapter", salt=correctness.new_salt())
    assert correctness.same(stolen, computed, "an adapter") is False
    assert (correctness.wrong_outputs, correctness.impossible_tokens) == (1, 3 * BLOCK)


def test_where_cached_tokens_are_not_told_outputs_are_still_compared(tmp_path: Path) -> None:
    found = checked(TinyEngine("stale output", tells_cached=False), tmp_path)
    numbers = found.numbers()
    assert numbers["impossible_hit_tokens"] is None
    assert numbers["wrong_outputs"]


@pytest.mark.parametrize(("margin", "word"), [(0.01, None), (2.0, False)])
def test_where_the_engine_all_but_tossed_a_coin_a_difference_proves_nothing(
    margin: float, word: bool | None, tmp_path: Path
) -> None:
    found = checked(TinyEngine("stale output", margin=margin), tmp_path)
    assert bool(found.wrong_outputs) == (word is False)
    assert bool(found.near_ties) == (word is None)


def test_what_was_not_answered_is_not_compared(tmp_path: Path) -> None:
    probe = Probe(TARGET, TinyEngine(), random.Random(1), SystemClock(), tmp_path / "r.jsonl")
    correctness = Correctness(probe, BLOCK, True)
    silent, answered = ProbeAnswer(False, reason="timed out"), ProbeAnswer(True, 16, 20, text="x")
    assert correctness.same(silent, answered, "it") is None
    assert correctness.same(answered, ProbeAnswer(True, 0, 20), "it") is None
    assert correctness.numbers()["wrong_outputs"] is None, "no value, which passes nothing"


def test_salts_are_letters_and_digits_and_no_salt_comes_twice(tmp_path: Path) -> None:
    """vLLM 0.32 refuses salts with '@', '/', '\\' or NUL, and ones longer than 128 characters."""
    probe = Probe(TARGET, TinyEngine(), random.Random(1), SystemClock(), tmp_path / "r.jsonl")
    salts = [Correctness(probe, BLOCK, True).new_salt() for _ in range(50)]
    assert len(set(salts)) == 50
    assert all(re.fullmatch(r"[a-z0-9-]{1,128}", salt) for salt in salts)


def test_two_runs_with_one_seed_draw_prompts_that_share_no_block(tmp_path: Path) -> None:
    probes = [Probe(TARGET, TinyEngine(), random.Random(1), SystemClock(), tmp_path / "r.jsonl") for _ in range(2)]
    one, other = (probe.new_tokens(40) for probe in probes)
    assert one[:12] != other[:12]
    assert one[12:] == other[12:], "what the seed decides is the same"
