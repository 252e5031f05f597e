"""vLLM V0's rules: sharing, promotion, the order of eviction, refusals, and what always holds."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve_simulator.vllm import Request, RequestState
from hitcurve_simulator.vllm_v0 import BlockManager, BlockPool


def admitted(
    manager: BlockManager, name: str, prompt: list[int], now: float = 0.0, **options: Any
) -> RequestState:
    state = manager.track(Request(name, prompt_token_ids=prompt, **options))
    assert manager.admit(state)
    manager.access(state, now)
    return state


def test_a_prompt_cached_whole_computes_one_token() -> None:
    manager = BlockManager(None, 16)
    manager.finish(admitted(manager, "first", list(range(1008))))
    assert admitted(manager, "second", list(range(1008))).hit_tokens == 1007
    assert (manager.query_blocks, manager.hit_blocks) == (126, 63)


def test_blocks_are_shared_before_they_are_found() -> None:
    """Two prompts of one step share their blocks, yet only the next step may skip computing them."""
    manager = BlockManager(None, 4)
    one, two = (admitted(manager, name, [1, 2, 3, 4, 5]) for name in ("one", "two"))
    assert two.hit_tokens == 0
    assert one.blocks[0] == two.blocks[0]
    manager.mark_computed()
    assert admitted(manager, "three", [1, 2, 3, 4, 5]).hit_tokens == 4


def test_a_block_that_becomes_full_gives_way_to_its_equal() -> None:
    manager = BlockManager(10, 4)
    manager.finish(admitted(manager, "known", [1, 2, 3, 4, 5]))
    state = admitted(manager, "growing", [1, 2, 3])
    own = state.blocks[0]
    manager.append(state, [4], 1)
    assert state.blocks == [0]
    assert own != 0
    assert manager.pool.num_held == 1
    assert manager.pool.free_order()[0] == own


def test_the_oldest_goes_first_and_of_one_chain_its_end() -> None:
    gone: list[int] = []
    manager = BlockManager(6, 4, watermark=0.0)
    manager.pool.on_evicted = lambda block, key: gone.append(block)
    older = admitted(manager, "older", list(range(8)), now=1.0)
    newer = admitted(manager, "newer", list(range(100, 112)), now=2.0)
    manager.finish(newer)
    manager.finish(older)
    # One block was never used; then the chain that ran longer ago goes from its end.
    admitted(manager, "large", list(range(1000, 1024)), now=3.0)
    assert gone == [1, 0, 4, 3, 2]


def test_the_watermark_and_the_worst_case_refuse() -> None:
    manager = BlockManager(10, 4, watermark=0.2)
    assert not manager.fits(33)
    assert manager.fits(32)
    state = admitted(manager, "r", list(range(32)))
    # Two blocks are free; ten tokens behind a full block may touch three, and are counted as four.
    assert manager.can_append(state, 8)
    assert not manager.can_append(state, 10)


def test_salts_do_not_isolate_and_adapters_do() -> None:
    manager = BlockManager(None, 4)
    manager.finish(admitted(manager, "plain", list(range(9))))
    assert admitted(manager, "salted", list(range(9)), cache_salt="s").hit_tokens == 8
    assert admitted(manager, "adapter", list(range(9)), adapter="a").hit_tokens == 0


def test_a_reset_waits_for_held_blocks() -> None:
    manager = BlockManager(8, 4)
    state = admitted(manager, "r", list(range(9)))
    assert not manager.reset()
    manager.finish(state)
    assert manager.reset()
    assert manager.pool.num_free == 8
    assert admitted(manager, "again", list(range(9))).hit_tokens == 0


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.lists(st.integers(1, 2), min_size=1, max_size=24), st.booleans()), max_size=40))
def test_blocks_are_never_lost(requests: list[tuple[list[int], bool]]) -> None:
    manager = BlockManager(12, 4, watermark=0.0)
    running: list[RequestState] = []
    for now, (prompt, stays) in enumerate(requests):
        state = manager.track(Request(str(now), prompt_token_ids=prompt))
        if manager.admit(state):
            manager.access(state, now)
            running.append(state)
        manager.mark_computed()
        if running and not stays:
            manager.finish(running.pop(0))
        held = {block for state in running for block in state.blocks}
        assert manager.pool.num_held == len(held)
        assert sorted([*manager.pool.free_order(), *held]) == list(range(12))


def test_an_empty_pool_hands_out_nothing() -> None:
    pool = BlockPool(1)
    pool.take()
    with pytest.raises(ValueError, match="no block is free"):
        pool.take()
