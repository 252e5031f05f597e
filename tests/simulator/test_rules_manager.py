"""Pool and manager against what real managers of 0.8.5 to 0.32 were seen to do (block size 16)."""

from collections.abc import Callable

import pytest

from hitcurve.hashing import Image, block_hashes, none_hash
from hitcurve_simulator.vllm import CacheManager, Request, RequestState, VllmHasher, rules_of_version

OLD, NEW = rules_of_version("0.22.1"), rules_of_version("0.32.0")
PROMPT = tuple(range(69))


def admit(manager: CacheManager, request: Request) -> RequestState | None:
    state = manager.track(request)
    found = manager.lookup(state)
    hits = len(found) * manager.block_size
    if not manager.admit(state, state.num_tokens - hits, found):
        return None
    state.computed_tokens = state.num_tokens
    return state


def served(manager: CacheManager, request: Request) -> int | None:
    """Hit tokens of a request that is admitted and finished at once."""
    state = admit(manager, request)
    assert state is not None
    manager.finish(state)
    return state.hit_tokens


@pytest.mark.parametrize(
    ("version", "queue"),
    [
        ("0.8.5", [7, 8, 9, 10, 5, 6, 4, 3, 2, 1]),
        ("0.23.0", [7, 8, 9, 10, 5, 6, 4, 3, 2, 1]),
        ("0.24.0", [6, 5, 7, 8, 9, 10, 4, 3, 2, 1]),
        ("0.32.0", [6, 5, 7, 8, 9, 10, 4, 3, 2, 1]),
    ],
)
def test_free_queue_evicts_the_tail_first_and_new_versions_reuse_unhashed_blocks(
    version: str, queue: list[int]
) -> None:
    manager = CacheManager(11, 16, rules_of_version(version))
    first, second = (admit(manager, Request(name, PROMPT)) for name in ("first", "second"))
    assert first is not None
    assert second is not None
    assert (first.blocks, second.blocks) == ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6])
    assert (first.hit_tokens, second.hit_tokens) == (0, 64)
    manager.finish(first)
    manager.finish(second)
    assert list(manager.pool.free_queue) == queue

    big = admit(manager, Request("big", tuple(range(1000, 1144))))
    assert big is not None
    assert manager.pool.evictions == 3
    assert admit(manager, Request("refused", tuple(range(2000, 2080)))) is None
    manager.preempt(big)
    resumed = manager.lookup(big)
    assert len(resumed) * 16 == 128


def test_at_least_the_last_token_is_computed() -> None:
    manager = CacheManager(None, 16)
    prompt = tuple(range(64))
    assert served(manager, Request("first", prompt)) == 0
    assert served(manager, Request("again", prompt)) == 48


def test_equal_content_stays_two_blocks_and_the_other_copy_is_hit_after_an_eviction() -> None:
    manager = CacheManager(6, 4)
    tokens = tuple(range(8))
    # The second lookup comes before the first allocation, so both requests compute the same block.
    first, second = manager.track(Request("first", tokens)), manager.track(Request("second", tokens))
    assert manager.lookup(first) == manager.lookup(second) == []
    assert manager.admit(first, 8)
    assert manager.admit(second, 8)
    key = first.keys[0]
    assert manager.pool.copies_of(key) == [1, 3]
    manager.finish(first)
    assert manager.pool.cached_block(key) == 1
    assert served(manager, Request("other", tuple(range(100, 109)))) == 0
    assert manager.pool.copies_of(key) == [3]
    assert manager.pool.cached_block(key) == 3


def test_reset_is_refused_while_blocks_are_held_and_keeps_the_order_of_the_queue() -> None:
    manager = CacheManager(11, 16)
    state = admit(manager, Request("r", PROMPT))
    assert state is not None
    assert not manager.reset_prefix_cache()
    assert manager.pool.num_cached_keys == 4
    manager.finish(state)
    order = list(manager.pool.free_queue)
    assert manager.reset_prefix_cache()
    assert list(manager.pool.free_queue) == order
    assert manager.pool.num_cached_keys == 0
    assert served(manager, Request("again", PROMPT)) == 0


def test_a_request_that_may_not_read_the_cache_still_fills_it() -> None:
    manager = CacheManager(None, 16)
    served(manager, Request("first", PROMPT))
    assert served(manager, Request("logprobs", PROMPT, skip_reading_prefix_cache=True)) is None
    statistics = manager.statistics
    assert (statistics.requests, statistics.queries, statistics.hits) == (1, 69, 0)
    assert (statistics.skipped_requests, statistics.skipped_tokens) == (1, 69)
    manager = CacheManager(None, 16)
    served(manager, Request("logprobs", PROMPT, skip_reading_prefix_cache=True))
    assert served(manager, Request("next", PROMPT)) == 64


def test_without_caching_nothing_is_found_or_kept() -> None:
    manager = CacheManager(11, 16, enable_caching=False)
    assert served(manager, Request("first", PROMPT)) is None
    assert served(manager, Request("again", PROMPT)) is None
    assert manager.pool.num_cached_keys == 0
    assert manager.statistics.queries == 0


@pytest.mark.parametrize(("length", "queries"), [(69, 4), (64, 3)])
def test_old_statistics_count_blocks_without_the_last_aligned_one(length: int, queries: int) -> None:
    manager = CacheManager(None, 16, rules_of_version("0.8.5"))
    for name in ("first", "again"):
        served(manager, Request(name, tuple(range(length))))
    assert (manager.statistics.queries, manager.statistics.hits) == (2 * queries, queries)


@pytest.mark.parametrize(("version", "requests"), [("0.26.0", 3), ("0.27.1", 1)])
def test_refused_lookups_count_only_in_old_versions(version: str, requests: int) -> None:
    manager = CacheManager(6, 16, rules_of_version(version))
    assert admit(manager, Request("holds", PROMPT)) is not None
    for _ in range(2):
        assert admit(manager, Request("refused", tuple(range(100, 150)))) is None
    assert manager.statistics.requests == requests


@pytest.mark.parametrize(("version", "requests"), [("0.11.0", 2), ("0.11.2", 1)])
def test_resumed_requests_are_kept_apart_since_0_11_1(version: str, requests: int) -> None:
    manager = CacheManager(11, 16, rules_of_version(version))
    state = admit(manager, Request("r", PROMPT))
    assert state is not None
    manager.preempt(state)
    found = manager.lookup(state)
    assert manager.admit(state, state.num_tokens - len(found) * 16, found)
    statistics = manager.statistics
    assert statistics.requests == requests
    assert statistics.preempted_requests == 2 - requests
    assert statistics.hits + statistics.preempted_hits == 64


@pytest.mark.parametrize(("version", "usage"), [("0.10.1", 7 / 11), ("0.10.2", 6 / 10)])
def test_usage_counts_the_null_block_in_old_versions(version: str, usage: float) -> None:
    manager = CacheManager(11, 16, rules_of_version(version))
    admit(manager, Request("r", tuple(range(96))))
    assert manager.usage == usage


def test_whole_prompt_must_fit_even_when_only_a_chunk_is_asked_for() -> None:
    for rules, admitted in ((rules_of_version("0.18.1"), True), (NEW, False)):
        manager = CacheManager(4, 16, rules)
        state = manager.track(Request("r", PROMPT))
        assert manager.admit(state, 16) is admitted


@pytest.mark.parametrize(
    ("change", "hits"),
    [
        (lambda: Request("r", PROMPT), 64),
        (lambda: Request("r", PROMPT, adapter="a"), 0),
        (lambda: Request("r", PROMPT, cache_salt="s"), 0),
        (lambda: Request("r", PROMPT, images=(Image("cat", 20, 4),)), 16),
        (lambda: Request("r", (*PROMPT[:40], 7, *PROMPT[41:])), 32),
    ],
)
def test_keys_hold_tokens_adapter_salt_and_images(change: Callable[[], Request], hits: int) -> None:
    manager = CacheManager(None, 16)
    served(manager, Request("base", PROMPT))
    assert served(manager, change()) == hits
    assert served(manager, change()) == 64


def test_a_new_path_of_an_adapter_isolates_since_0_31() -> None:
    for version, hits in (("0.30.0", 64), ("0.31.0", 0)):
        manager = CacheManager(None, 16, rules_of_version(version))
        served(manager, Request("old", PROMPT, adapter="a", adapter_path="/one"))
        assert served(manager, Request("new", PROMPT, adapter="a", adapter_path="/two")) == hits


def test_keys_can_be_vllms_own_hashes() -> None:
    root = none_hash("sha256")
    manager = CacheManager(None, 16, hasher=VllmHasher("sha256", root))
    state = manager.track(Request("r", PROMPT, cache_salt="s", images=(Image("cat", 20, 4),)))
    manager.append_output(state, range(100, 120))
    tokens = [*PROMPT, *range(100, 120)]
    expected = block_hashes(tokens, 16, "sha256", root, salt="s", images=[Image("cat", 20, 4)])
    assert state.keys == expected


def test_versions_that_have_no_rules_are_named() -> None:
    with pytest.raises(ValueError, match=r"no rules for vLLM 0\.7\.3"):
        rules_of_version("0.7.3")
    with pytest.raises(ValueError, match="'latest' is no vLLM version"):
        rules_of_version("latest")
    assert rules_of_version("v0.32.0").free_rule == "unhashed_first"
    assert OLD.free_rule == "append"


def test_eagle_computes_the_last_block_it_found_again() -> None:
    manager = CacheManager(None, 4, drops_last_hit_block=True)
    for name, hits in (("first", 0), ("second", 8)):
        state = manager.track(Request(name, prompt_token_ids=list(range(14))))
        found = manager.lookup(state)
        assert manager.admit(state, 14 - len(found) * 4, found)
        assert state.hit_tokens == hits
        manager.finish(state)
    assert (manager.statistics.queries, manager.statistics.hits) == (28, 8)


def test_what_a_connector_brings_is_counted_apart() -> None:
    manager = CacheManager(None, 4)
    manager_hits = []
    for name in ("first", "second"):
        state = manager.track(Request(name, prompt_token_ids=list(range(20))))
        found = manager.lookup(state)
        external = 8 if not found else 0
        assert manager.admit(state, 20 - external - len(found) * 4, found, external_tokens=external)
        manager_hits.append(state.hit_tokens)
        manager.finish(state)
    # What the connector brought is cached like what was computed.
    assert manager_hits == [0, 16]
    counted = manager.statistics
    assert (counted.queries, counted.hits) == (40, 16)
    assert (counted.external_queries, counted.external_hits) == (20, 8)
