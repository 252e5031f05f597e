"""Explicit breakpoints: what is read, written and billed, lifetimes, and what is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve.cli import main
from hitcurve_simulator.explicit import Breakpoint, ExplicitCache, Lifetime, Multipliers, Prompt, Usage


def prompt(text: str, *breakpoints: Breakpoint, tokens_each: int = 1000, rest: int = 0) -> Prompt:
    """A content block per letter."""
    keys = [text[: end + 1] for end in range(len(text))]
    ends = [(end + 1) * tokens_each for end in range(len(text))]
    return Prompt(keys, ends, len(text) * tokens_each + rest, breakpoints)


def test_a_prefix_is_written_once_and_read_while_it_lives() -> None:
    cache = ExplicitCache()
    wish = prompt("abc", Breakpoint(1))
    assert cache.request(wish, 0.0) == Usage(write_5m=2000, plain=1000)
    assert cache.request(wish, 299.0) == Usage(read=2000, plain=1000)
    # Reading renewed it.
    assert cache.request(wish, 598.0) == Usage(read=2000, plain=1000)
    assert cache.request(wish, 898.0) == Usage(write_5m=2000, plain=1000)
    assert cache.expired_tokens == 2000


def test_without_a_breakpoint_or_below_the_minimum_nothing_is_cached() -> None:
    cache = ExplicitCache(minimum_tokens=1024)
    for wish in (prompt("ab"), prompt("ab", Breakpoint(0))):
        for now in (0.0, 1.0):
            assert cache.request(wish, now) == Usage(plain=2000)


def test_a_chat_that_goes_on_reads_what_the_turn_before_wrote() -> None:
    cache = ExplicitCache()
    cache.request(prompt("ab", Breakpoint(1)), 0.0)
    assert cache.request(prompt("abcd", Breakpoint(3)), 1.0) == Usage(read=2000, write_5m=2000)
    # A prefix that ends at no breakpoint of an earlier request is no entry.
    assert cache.request(prompt("abcx", Breakpoint(3)), 2.0) == Usage(read=2000, write_5m=2000)


def test_a_lookup_goes_back_a_number_of_blocks() -> None:
    cache = ExplicitCache(lookback=20)
    start = "a" * 5
    cache.request(prompt(start, Breakpoint(4)), 0.0)
    assert cache.request(prompt(start + "b" * 19, Breakpoint(23)), 1.0).read == 5000
    assert cache.request(prompt(start + "c" * 20, Breakpoint(24)), 1.0).read == 0
    # A breakpoint in between finds it again.
    assert cache.request(prompt(start + "d" * 20, Breakpoint(10), Breakpoint(24)), 1.0).read == 5000


def test_two_lifetimes_are_billed_apart() -> None:
    cache = ExplicitCache()
    wish = prompt("abcd", Breakpoint(1, "1h"), Breakpoint(2, "5m"), rest=7)
    assert cache.request(wish, 0.0) == Usage(write_1h=2000, write_5m=1000, plain=1007)
    assert cache.request(wish, 1000.0) == Usage(read=2000, write_5m=1000, plain=1007)
    cost = cache.request(wish, 1001.0).cost(Multipliers(write_5m=1.25, write_1h=2.0, read=0.1))
    assert cost == pytest.approx(3000 * 0.1 + 1007)


@pytest.mark.parametrize(
    ("blocks", "sentence"),
    [
        ([(0, "5m"), (1, "5m"), (2, "5m"), (3, "5m"), (4, "5m")], "5 breakpoints; at most 4"),
        ([(2, "5m"), (1, "5m")], "out of order"),
        ([(9, "5m")], "of the prompt"),
        ([(0, "5m"), (1, "1h")], "longer lifetimes go first"),
    ],
)
def test_impossible_breakpoints_are_refused(blocks: list[tuple[int, Lifetime]], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        prompt("abcdef", *(Breakpoint(*each) for each in blocks))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=8), st.integers(0, 400)), max_size=30))
def test_every_token_is_billed_once(requests: list[tuple[str, int]]) -> None:
    cache, now, paid = ExplicitCache(minimum_tokens=0), 0.0, Usage()
    for text, pause in requests:
        now += pause
        usage = cache.request(prompt(text, Breakpoint(len(text) - 1), rest=3), now)
        assert usage.tokens == len(text) * 1000 + 3
        paid += usage
    assert paid.read + paid.write_5m + paid.plain == sum(len(text) * 1000 + 3 for text, _ in requests)


def test_simulate_tells_usage_and_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.jsonl"
    rows = [{"hash_ids": [1, 2], "input_length": 1030, "timestamp": at} for at in (0, 299_000, 700_000)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SystemExit) as exit_:
        main(
            [
                "simulate",
                str(file),
                "--rules",
                "explicit",
                "--block-size",
                "512",
                "--prices",
                "1.25,2,0.1",
                "--json",
            ]
        )
    assert exit_.value.code == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["query_tokens"], answer["hit_tokens"], answer["rules"]) == (3090, 1024, "explicit")
    assert answer["miss_tokens"] == {"compulsory": 1024, "expired": 1024, "tail": 18}
    assert answer["usage"]["cost_in_plain_tokens"] == pytest.approx(18 + 2048 * 1.25 + 1024 * 0.1)
