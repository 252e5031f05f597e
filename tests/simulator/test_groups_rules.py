"""Sliding windows and several groups of attention, against what real vLLM managers were seen to do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve_simulator.vllm import NULL_BLOCK, Request, RequestState, rules_of_version
from hitcurve_simulator.vllm_groups import (
    Attention,
    FullAttention,
    GroupedCacheManager,
    SlidingWindow,
    read_groups,
)


def admit(manager: GroupedCacheManager, name: str, tokens: list[int]) -> RequestState | None:
    state = manager.track(Request(name, tuple(tokens)))
    hit = manager.lookup(state)
    if not manager.admit(state, state.num_tokens - hit.tokens, hit):
        return None
    state.computed_tokens = state.num_tokens
    return state


def served(manager: GroupedCacheManager, name: str, tokens: list[int]) -> int | None:
    """Hit tokens of a request that is admitted and freed at once."""
    state = admit(manager, name, tokens)
    assert state is not None
    manager.free(state)
    return state.hit_tokens


def test_blocks_outside_the_window_are_null_blocks() -> None:
    """165 tokens with a window of 32: real managers of 0.9.2 to 0.32 hit 160, in the window's group 8 null blocks
    and 2 real ones."""
    manager = GroupedCacheManager(60, [FullAttention(16), SlidingWindow(16, 32)])
    prompt = list(range(165))
    assert served(manager, "first", prompt) == 0
    hit = manager.lookup(manager.track(Request("again", tuple(prompt))))
    full, window = hit.blocks
    assert (hit.tokens, len(full), NULL_BLOCK in full) == (160, 10, False)
    assert (window[:8], len(window), NULL_BLOCK in window[8:]) == ([NULL_BLOCK] * 8, 10, False)


def test_a_window_outlives_what_lies_before_it() -> None:
    """A window of 8 needs the last two blocks only; full attention ends at the first block that is gone."""
    for attention, hits in ((SlidingWindow(4, 8), 16), (FullAttention(4), 0)):
        manager = GroupedCacheManager(6, [attention])
        prompt = list(range(17))
        assert served(manager, "first", prompt) == 0
        last = manager.lookup(manager.track(Request("again", tuple(prompt)))).blocks[0][2:]
        manager.pool.touch(last)
        manager.pool.take_new(3)
        manager.pool.free(last)
        assert manager.lookup(manager.track(Request("again", tuple(prompt)))).tokens == hits


def test_prefixes_shorter_than_the_common_block_are_never_reused() -> None:
    manager = GroupedCacheManager(None, [FullAttention(8), SlidingWindow(12, 30)])
    assert manager.block_size == 24
    shared = list(range(47))
    assert served(manager, "first", shared) == 0
    assert served(manager, "short", [*shared[:23], 900]) == 0
    assert served(manager, "just", [*shared[:24], 901]) == 24
    assert served(manager, "long", [*shared, 902]) == 24


def test_a_running_request_gives_back_what_its_window_left() -> None:
    manager = GroupedCacheManager(40, [SlidingWindow(4, 8)])
    state = admit(manager, "r", list(range(32)))
    assert state is not None
    assert manager.pool.num_used == 8
    manager.append_output(state, [100])
    assert manager.allocate(state, 1)
    # The 33rd token attends to itself and the seven before it: the blocks from the 24th token on.
    assert manager.blocks_of("r")[0][:6] == [NULL_BLOCK] * 6
    assert manager.pool.num_used == 3


def test_an_admission_counts_a_window_with_the_most_it_ever_holds() -> None:
    prompt = list(range(400))
    groups = [SlidingWindow(4, 8)]
    bounded = GroupedCacheManager(12, groups, in_flight_tokens=16)
    state = bounded.track(Request("r", tuple(prompt)))
    assert bounded.admit(state, 16, bounded.lookup(state))
    unbounded = GroupedCacheManager(12, groups)
    assert not unbounded.admit(state, 16, unbounded.lookup(state))


def test_a_request_that_may_not_read_the_cache_finds_nothing_and_fills_it() -> None:
    manager = GroupedCacheManager(None, [FullAttention(4), SlidingWindow(4, 6)])
    state = manager.track(Request("logprobs", tuple(range(17)), skip_reading_prefix_cache=True))
    assert manager.admit(state, 17, manager.lookup(state))
    manager.free(state)
    assert served(manager, "next", list(range(17))) == 16
    counted = manager.statistics
    assert (counted.requests, counted.queries, counted.hits, counted.skipped_tokens) == (1, 17, 16, 17)


def test_what_has_no_rules_is_named() -> None:
    hybrid = [FullAttention(8), SlidingWindow(4, 8)]
    with pytest.raises(ValueError, match=r"they start with 0\.24"):
        GroupedCacheManager(9, hybrid, rules_of_version("0.23.0"))
    with pytest.raises(ValueError, match="EAGLE with groups of different block sizes"):
        GroupedCacheManager(9, hybrid, drops_last_hit_block=True)
    with pytest.raises(ValueError, match="full attention with different block sizes"):
        GroupedCacheManager(9, [FullAttention(8), FullAttention(4)])
    with pytest.raises(ValueError, match="there must be a group"):
        GroupedCacheManager(9, [])


def test_groups_are_read_from_text() -> None:
    assert read_groups("full:32, 128:16") == [FullAttention(32), SlidingWindow(16, 128)]
    for wrong in ("full", "full:0", "full:32,", "128", "-1:16", "128:16:4"):
        with pytest.raises(ValueError, match="is no group such as"):
            read_groups(wrong)


GROUPS = st.sampled_from(
    [
        [SlidingWindow(4, 9)],
        [FullAttention(4), SlidingWindow(4, 6)],
        [SlidingWindow(4, 7), FullAttention(8), SlidingWindow(4, 7)],
        [FullAttention(4), SlidingWindow(8, 12), SlidingWindow(4, 5)],
    ]
)
OPERATIONS = st.lists(st.tuples(st.sampled_from(["admit", "grow", "free"]), st.integers(0, 59)), max_size=40)


@settings(deadline=None)
@given(GROUPS, OPERATIONS)
def test_no_block_is_lost_and_every_hit_is_complete(
    groups: list[Attention], operations: list[tuple[str, int]]
) -> None:
    manager = GroupedCacheManager(40, groups)
    running: list[RequestState] = []
    for number, (operation, amount) in enumerate(operations):
        if operation == "admit":
            tokens = [0] * amount + [number % 3]
            state = manager.track(Request(f"r{number}", tuple(tokens)))
            hit = manager.lookup(state)
            check_hit(manager, state, hit.tokens, hit.blocks)
            if manager.admit(state, len(tokens) - hit.tokens, hit):
                state.computed_tokens = len(tokens)
                running.append(state)
        elif operation == "grow" and running:
            state = running[amount % len(running)]
            manager.append_output(state, [amount % 2])
            if manager.allocate(state, 1):
                state.computed_tokens += 1
            else:
                manager.free(state)
                running.remove(state)
        elif running:
            manager.free(running.pop(amount % len(running)))
        held = {
            block
            for state in running
            for ids in manager.blocks_of(state.request_id)
            for block in ids
            if block != 0
        }
        assert sorted([*held, *manager.pool.free_queue]) == list(range(1, 40))


def check_hit(
    manager: GroupedCacheManager, state: RequestState, tokens: int, blocks: tuple[list[int], ...]
) -> None:
    """Every block that the next token attends to is there, and holds the prompt's tokens."""
    assert tokens % manager.block_size == 0
    assert tokens < state.num_tokens
    for group, found in zip(manager.groups, blocks, strict=True):
        size = group.attention.block_size
        assert len(found) * size == tokens
        first_needed = group.attention.skipped_tokens(tokens) // size
        for place in range(first_needed, len(found)):
            assert manager.pool.key_of(found[place]) == group.key(state.keys, place)
