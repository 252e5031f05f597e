"""Where reuse breaks: the place, the cause, and the gain of moving the culprit, replayed."""

from dataclasses import replace

import numpy as np
import pytest

from hitcurve_simulator.estimate.estimate import Estimator
from hitcurve_simulator.estimate.reuse_breaks import Prompt, find_breaks, prompt_of
from hitcurve_simulator.estimate.traffic import Traffic
from hitcurve_simulator.estimate.volatile_text import volatile_at
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.traces.text import TextPieces, Tokenizer, Utf8Bytes
from hitcurve_simulator.vllm import Request

RULES = "You are a careful assistant. Answer in one sentence and cite the page. " * 6
WORDS = ["Rivers", "Mountains", "Cities", "Deserts", "Islands"]
TIMES = [f"2026-11-{day:02}T10:{minute:02}:07Z" for day, minute in ((1, 5), (2, 6), (13, 17), (14, 28), (25, 39))]


def estimator(texts: list[str], tokenizer: Tokenizer, tenants: str | None = None) -> Estimator:
    rows = [
        TraceRow(
            line,
            Request(f"line {line}", prompt_token_ids=tokenizer.token_ids(text)),
            tenant=None if tenants is None else tenants[line - 1],
            from_text=True,
        )
        for line, text in enumerate(texts, 1)
    ]
    return Estimator(Traffic("test", ("plain",), 16, tuple(rows), (0,) * len(rows), tokenizer))


@pytest.mark.parametrize("tokenizer", [TextPieces(), Utf8Bytes()])
def test_a_timestamp_at_the_head_is_named_and_its_gain_is_a_replay(tokenizer: Tokenizer) -> None:
    texts = [f"It is {time}. {RULES}{word}?" for word, time in zip(WORDS, TIMES, strict=True)]
    found = estimator(texts, tokenizer).breaks(None)
    assert [(one.found.cause, one.found.start, one.found.requests) for one in found] == [("timestamp", 6, 4)]
    (fixed,) = found
    moved = [f"It is . {RULES}{word}? {time}" for word, time in zip(WORDS, TIMES, strict=True)]
    assert fixed.after.ceiling == estimator(moved, tokenizer).curves.engine.rate_in(None)
    assert fixed.before.ceiling == estimator(texts, tokenizer).curves.engine.rate_in(None)
    assert fixed.before.ceiling < 0.05 < 0.6 < fixed.after.ceiling
    assert fixed.found.texts[0].startswith("2026-11-01T10:05:07Z")
    assert fixed.found.texts[1].startswith("2026-11-02T10:06:07Z")


def test_one_fix_after_the_other_and_each_tenant_apart() -> None:
    ids = ["req_a51b02", "req_0c93f1", "req_f0017d", "req_4b8e22"]
    clean = [f"{RULES}{word}" for word in WORDS[:4]]
    both = [f"{one} at {time}: {text}" for one, time, text in zip(ids, TIMES, clean, strict=False)]
    found = estimator(both + clean, TextPieces(), "xxxxyyyy").breaks(None)
    assert [(one.found.group, one.found.cause) for one in found] == [("x", "request id"), ("x", "timestamp")]
    first, second = ((one.after.ceiling or 0) - (one.before.ceiling or 0) for one in found)
    # With the id alone moved away the timestamp still ends the prefix.
    assert first == pytest.approx(0.0, abs=0.01)
    assert second > 0.3


def test_what_differs_without_a_known_cause_and_growing_chats_are_no_breaks() -> None:
    tokenizer = TextPieces()
    words = [f"{RULES}Tell me about {word} please" for word in ("rivers", "mountains", "cities")]
    assert estimator(words, tokenizer).breaks(None) == []
    chat = ["Hello 1", "Hello 1 and 2", "Hello 1 and 2 and 3"]
    rows = estimator(chat, tokenizer).traffic.rows
    assert find_breaks([prompt_of(row, tokenizer) for row in rows], "g", tokenizer) == []


def test_rows_that_are_not_text_are_left_alone() -> None:
    prompts = [Prompt(np.array([1000 + line, *range(40)]), None) for line in range(3)]
    assert find_breaks(prompts, "g", TextPieces()) == []
    texts = [f"It is {time}. {RULES}" for time in TIMES]
    with_text = estimator(texts, TextPieces())
    bare = tuple(replace(row, from_text=False) for row in with_text.traffic.rows)
    assert Estimator(replace(with_text.traffic, rows=bare)).breaks(None) == []


def test_a_fix_that_loses_is_undone() -> None:
    rules = RULES * 2
    chats = []
    for number, word in zip((17, 23, 42, 58, 61), WORDS, strict=True):
        # Full blocks: with the number at the end the next turn would no longer find the last one.
        first = f"{rules}{number} {word}".ljust(16 * (len(rules) // 16 + 2), ".")
        chats += [first, f"{first} And what else is there to see in that place?"]
    timed = [f"It is {time}. {RULES}{word}?" for word, time in zip(WORDS, TIMES, strict=True)]
    both = estimator([*chats, *timed], Utf8Bytes(), "x" * len(chats) + "y" * len(timed))
    alone = estimator(chats, Utf8Bytes())
    prompts = [prompt_of(row, Utf8Bytes()) for row in alone.traffic.rows]
    assert [one.cause for one in find_breaks(prompts, "x", Utf8Bytes())] == ["number"]
    assert alone.breaks(None) == []
    (fixed,) = both.breaks(None)
    assert (fixed.found.group, fixed.found.cause) == ("y", "timestamp")
    assert fixed.before.ceiling == both.curves.engine.rate_in(None)


def test_a_gain_may_show_only_in_the_pool() -> None:
    """Each prompt comes twice, so without a limit half is found anyway; in a small pool only what is shared is."""
    texts = [f"It is {time}. {RULES}{word}?" for word, time in zip(WORDS, TIMES, strict=True)]
    twice = estimator([*texts, *texts], TextPieces())
    size = len(twice.chains.engine.keys) // 10
    (fixed,) = twice.breaks(2 * size)
    assert fixed.before.in_pool is not None
    assert fixed.after.in_pool is not None
    assert fixed.before.in_pool < 0.05 < 0.6 < fixed.after.in_pool


@pytest.mark.parametrize(
    ("text", "at", "cause", "held"),
    [
        ("Now: 2026-11-30T03:26:25.123+01:00 go", 10, "timestamp", "2026-11-30T03:26:25.123+01:00"),
        ("id 3f2b8c1e-aaaa-4bbb-8ccc-123456789abc.", 5, "uuid", "3f2b8c1e-aaaa-4bbb-8ccc-123456789abc"),
        ("[session-81f] hi", 3, "request id", "session-81f"),
        ("epoch 1764471985 x", 6, "unix time", "1764471985"),
        ("on 30.11.2026 we", 3, "date", "30.11.2026"),
        ("at 03:26 we", 3, "time of day", "03:26"),
        ("sha deadbeef01 we", 5, "hexadecimal id", "deadbeef01"),
        ("page 17 of", 5, "number", "17"),
        ("page 17 of", 4, "number", "17"),
        ("page seventeen", 5, None, ""),
        ("the session ended", 5, None, ""),
    ],
)
def test_kinds_of_text_that_change_with_every_request(text: str, at: int, cause: str | None, held: str) -> None:
    found = volatile_at(text, at)
    assert (None if found is None else found.cause) == cause
    assert held == ("" if found is None else text[found.start : found.end])
