"""SGLang's radix rules: what was seen on its caches 0.5.22, namespaces, policies, and what always holds."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve.cli import main
from hitcurve_simulator.sglang import Policy, RadixCache, RadixTree
from hitcurve_simulator.vllm import Request

ALPHABET = st.integers(1, 2)


def serve(cache: RadixCache, name: str, prompt: list[int], output: list[int] | None = None, **options: Any) -> int:
    """Hit tokens of a request that runs alone and ends at once."""
    extra_key = options.pop("extra_key", None)
    state = cache.track(Request(name, prompt_token_ids=prompt, **options), extra_key)
    assert cache.start(state, len(prompt))
    cache.checkpoint(state)
    if output:
        cache.append_output(state, output)
        assert cache.grow(state, len(output) - 1)
    cache.finish(state)
    assert state.hit_tokens is not None
    return state.hit_tokens


@pytest.mark.parametrize(
    ("first", "second", "page_1", "page_16"),
    [
        ((0, 1000), (0, 1000), 999, 992),
        ((0, 1008), (0, 1008), 1007, 992),
        ((0, 140), (0, 40), 39, 32),
        ((0, 52), (0, 12), 11, 0),
        ((0, 16), (0, 16), 15, 0),
    ],
)
def test_hits_seen_on_the_real_caches(
    first: tuple[int, int], second: tuple[int, int], page_1: int, page_16: int
) -> None:
    for page_size, hits in ((1, page_1), (16, page_16)):
        cache = RadixCache(None, page_size)
        assert serve(cache, "first", list(range(*first))) == 0
        assert serve(cache, "second", list(range(*second))) == hits


def test_shared_start_and_own_rest() -> None:
    for page_size, hits in ((1, 40), (16, 32)):
        cache = RadixCache(None, page_size)
        serve(cache, "first", [*range(40), *range(1000, 1100)])
        assert serve(cache, "second", [*range(40), *range(2000, 2100)]) == hits


def test_an_output_is_cached_without_its_last_token() -> None:
    for page_size, hits in ((1, 149), (16, 144)):
        cache = RadixCache(None, page_size)
        prompt, output = list(range(100)), list(range(500, 550))
        serve(cache, "first turn", prompt, output)
        assert serve(cache, "second turn", [*prompt, *output, *range(900, 910)]) == hits


def test_only_the_shortfall_is_evicted_and_only_whole_leaves() -> None:
    cache = RadixCache(250)
    serve(cache, "old", list(range(100)))
    serve(cache, "new", list(range(1000, 1100)))
    cache.make_room(60)
    assert (cache.free_pages, cache.evicted_pages) == (150, 100)
    assert serve(cache, "new again", list(range(1000, 1100))) == 99
    assert serve(cache, "old again", list(range(100))) == 0


def test_an_output_goes_before_its_prompt() -> None:
    cache = RadixCache(None)
    serve(cache, "request", list(range(100)), list(range(500, 550)))
    tree = cache._tree
    gone: list[int] = []
    tree.evict(1, lambda node: gone.append(len(node.pages)))
    tree.evict(1, lambda node: gone.append(len(node.pages)))
    assert gone == [49, 100]


def test_a_running_request_keeps_its_path() -> None:
    cache = RadixCache(400)
    state = cache.track(Request("running", prompt_token_ids=list(range(200))))
    assert cache.start(state, 200)
    cache.checkpoint(state)
    serve(cache, "other", list(range(1000, 1100)))
    cache.make_room(400)
    assert (cache.locked_pages, cache.evictable_pages, cache.free_pages) == (200, 0, 200)
    assert not cache.reset()
    cache.finish(state)
    assert cache.reset()
    assert cache.free_pages == 400


def test_namespaces_share_nothing() -> None:
    cache = RadixCache(None)
    prompt = list(range(50))
    serve(cache, "plain", prompt)
    assert serve(cache, "salt", prompt, cache_salt="s") == 0
    assert serve(cache, "key", prompt, extra_key="k") == 0
    assert serve(cache, "adapter", prompt, adapter="a") == 0
    assert serve(cache, "plain again", prompt) == 49
    assert cache.shared_namespaces.found == []


def test_a_key_and_an_adapter_run_into_each_other() -> None:
    cache = RadixCache(None)
    prompt = list(range(50))
    serve(cache, "one", prompt, extra_key="tenant-", adapter="1a")
    # Another adapter is served what the first one computed.
    assert serve(cache, "other", prompt, extra_key="tenant-1", adapter="a") == 49
    (group,) = cache.shared_namespaces.found
    assert [(namespace.extra_key, namespace.adapter) for namespace in group] == [
        ("tenant-", "1a"),
        ("tenant-1", "a"),
    ]


@pytest.mark.parametrize(
    ("policy", "gone"),
    [
        # x is stored first, twice; y then, once, with a higher priority; z last, and x is looked up once more.
        ("lru", "yzx"),
        ("fifo", "xyz"),
        ("filo", "zyx"),
        ("mru", "xzy"),
        ("lfu", "yzx"),
        ("slru", "yzx"),
        ("priority", "zxy"),
    ],
)
def test_policies_choose_their_victim(policy: Policy, gone: str) -> None:
    tree = RadixTree(policy)
    runs = {name: [(name, page) for page in range(3)] for name in "xyz"}
    tree.insert(runs["x"])
    tree.insert(runs["x"])
    tree.insert(runs["y"], priority=5)
    tree.insert(runs["z"])
    tree.match(runs["x"])
    victims: list[str] = []
    tree.evict(9, lambda node: victims.append(node.pages[0][0]))  # type: ignore[index]
    assert "".join(victims) == gone


def test_what_a_split_leaves_is_older_than_what_the_walk_makes() -> None:
    tree = RadixTree()
    tree.insert(["head", "rest"])
    tree.insert(["head", "new"])
    gone: list[object] = []
    tree.evict(1, lambda node: gone.extend(node.pages))
    assert gone == ["rest"]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.lists(ALPHABET, min_size=1, max_size=30), st.integers(0, 5), st.booleans()), max_size=40
    ),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["lru", "lfu", "slru", "fifo"]),
)
def test_pages_are_never_lost(requests: list[tuple[list[int], int, bool]], page_size: int, policy: Policy) -> None:
    cache = RadixCache(40, page_size, policy)
    running = []
    for number, (prompt, decoded, stays) in enumerate(requests):
        state = cache.track(Request(str(number), prompt_token_ids=prompt))
        if not cache.start(state, len(prompt), decoded):
            assert running, "an empty cache serves a prompt of its size"
            cache.finish(running.pop(0))
            continue
        assert state.hit_tokens is not None
        assert state.hit_tokens % page_size == 0
        assert state.hit_tokens < len(prompt)
        cache.checkpoint(state)
        running.append(state)
        if not stays:
            cache.finish(running.pop(0))
    for state in running:
        cache.finish(state)
    assert cache.locked_pages == 0
    assert cache.free_pages is not None
    assert cache.free_pages + cache.evictable_pages == 40
    cache.make_room(40 * page_size)
    assert cache.free_pages == 40


def test_simulate_finds_namespaces_that_run_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"extra_key": "tenant-", "lora": "1a"}, {"extra_key": "tenant-1", "lora": "a"}]
    trace = tmp_path / "two.jsonl"
    trace.write_text("".join(json.dumps({"token_ids": list(range(9)), **row}) + "\n" for row in rows))
    with pytest.raises(SystemExit) as exit_:
        main(["simulate", str(trace), "--rules", "sglang", "--page-size", "1", "--per-request", "--json"])
    assert exit_.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["hit_tokens_per_request"] == [0, 8]
    assert found["shared_namespaces"] == [[{**row, "cache_salt": None} for row in rows]]


def test_simulate_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    """The closed forms that hold whatever the seed, at both page sizes."""

    def hits_of(*arguments: object) -> int:
        with pytest.raises(SystemExit) as exit_:
            main(["simulate", *map(str, arguments), "--rules", "sglang", "--json"])
        assert exit_.value.code == 0
        hit_tokens: int = json.loads(capsys.readouterr().out)["hit_tokens"]
        return hit_tokens

    for seed in (0, 7):
        hits = {
            (name, page): hits_of(name, "--page-size", page, "--seed", seed) for name in "ABC" for page in (1, 16)
        }
        assert hits == {
            ("A", 1): 255 * 1000,
            ("A", 16): 255 * 992,
            ("B", 1): 255 * 1008,
            ("B", 16): 255 * 1008,
            ("C", 1): 255 * 12,
            ("C", 16): 0,
        }
