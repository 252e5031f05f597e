"""Load against the simulated engine: what clients see and what the engine counts is the same, to the token."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitcurve.child import ChildProcess

BLOCK = 16


@pytest.fixture(scope="module")
def simulated_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("engine") / "engine.log"
    command = [sys.executable, "-m", "hitcurve", "engine", "--port", "0", "--block-size", str(BLOCK)]
    with ChildProcess("simulated engine", command, log) as process:
        yield process.wait_listening(30)


def test_client_and_engine_count_the_same_hits(simulated_engine: str, load: Any) -> None:
    ended = load(
        *("shared-system-prompt", "--host", simulated_engine, "--rate", 60, "--requests", 60, "--groups", 3),
        *("--prefix-tokens", 160, "--suffix-tokens", 40, "--output-tokens", 2, "--json"),
    )
    cache, engine = ended.summary["cache"], ended.summary["engine"]
    assert (ended.code, cache["known"], cache["query_tokens"]) == (0, 60, 60 * 200)
    assert 0 < cache["hit_tokens"] <= 57 * 160
    assert engine == {
        "query_tokens": cache["query_tokens"],
        "hit_tokens": cache["hit_tokens"],
        "hit_rate": cache["hit_rate"],
        "reason": None,
    }


def test_one_after_the_other_all_but_the_first_of_each_group_hit(simulated_engine: str, load: Any) -> None:
    ended = load(
        *("shared-system-prompt", "--host", simulated_engine, "--users", 1, "--requests", 30, "--groups", 3),
        *("--prefix-tokens", 160, "--suffix-tokens", 40, "--output-tokens", 2, "--zipf", 0, "--json"),
    )
    assert ended.summary["cache"]["hit_tokens"] == 27 * 160
    assert (ended.summary["ttft_s"]["hits"]["count"], ended.summary["ttft_s"]["misses"]["count"]) == (27, 3)


def test_unique_prompts_never_hit(simulated_engine: str, load: Any) -> None:
    ended = load(
        "unique", "--host", simulated_engine, "--users", 2, "--requests", 20, "--output-tokens", 1, "--json"
    )
    assert (ended.summary["cache"]["hit_tokens"], ended.summary["engine"]["hit_tokens"]) == (0, 0)
    assert ended.summary["ttft_s"]["misses"]["count"] == 20


def test_a_chat_finds_its_whole_history_in_the_cache(
    simulated_engine: str, load: Any, tmp_path: Path, read_lines: Any
) -> None:
    ended = load(
        *("multi-turn", "--host", simulated_engine, "--users", 1, "--requests", 5, "--sessions", 1, "--turns", 5),
        *("--prefix-tokens", 100, "--suffix-tokens", 30, "--output-tokens", 20, "--out", tmp_path),
    )
    assert ended.code == 0, ended.err
    lines = read_lines(tmp_path / "requests.jsonl")
    assert [line["completion_tokens"] for line in lines] == [20] * 5
    assert lines[0]["cached_tokens"] == 0
    for before, after in itertools.pairwise(lines):
        # The last token of a reply was returned but never computed, so it is not in the cache.
        history = before["prompt_tokens"] + before["completion_tokens"] - 1
        assert after["cached_tokens"] == history // BLOCK * BLOCK
