"""TensorRT-LLM's rules: full blocks, priorities, durations, and that nothing is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve_simulator.trtllm import BlockReuse, BlockTree, Retention, TokenRange
from hitcurve_simulator.vllm import Request


def serve(
    reuse: BlockReuse, name: str, prompt: list[int], now: float = 0.0, retention: Retention | None = None
) -> int:
    """Hit tokens of a request that runs alone."""
    state = reuse.track(Request(name, prompt_token_ids=prompt), retention or Retention())
    assert reuse.admit(state, len(prompt), now=now)
    reuse.finish(state, now)
    assert state.hit_tokens is not None
    return state.hit_tokens


@pytest.mark.parametrize(
    ("second", "hits"), [(range(1000), 992), (range(1008), 992), (range(40), 32), (range(12), 0)]
)
def test_only_full_blocks_are_shared(second: range, hits: int) -> None:
    reuse = BlockReuse(None, 16)
    assert serve(reuse, "first", list(range(1000))) == 0
    assert serve(reuse, "second", list(second)) == hits


def test_the_chain_used_longest_ago_goes_from_its_end() -> None:
    reuse = BlockReuse(6, 4)
    serve(reuse, "old", list(range(12)))
    serve(reuse, "new", list(range(100, 112)))
    serve(reuse, "other", list(range(200, 208)))
    assert serve(reuse, "old again", list(range(13))) == 4
    assert serve(reuse, "new again", list(range(100, 113))) == 0


def test_a_higher_priority_stays() -> None:
    reuse = BlockReuse(6, 4)
    kept = Retention((TokenRange(0, None, 80),))
    serve(reuse, "kept", list(range(12)), retention=kept)
    serve(reuse, "plain", list(range(100, 112)))
    serve(reuse, "other", list(range(200, 212)))
    assert serve(reuse, "kept again", list(range(12)), retention=kept) == 8
    assert serve(reuse, "plain again", list(range(100, 112))) == 0


def test_a_low_priority_goes_before_blocks_never_used() -> None:
    reuse = BlockReuse(100, 4)
    serve(reuse, "low", list(range(8)), retention=Retention((TokenRange(0, None, 5),)))
    serve(reuse, "other", list(range(100, 108)))
    assert reuse.tree.evictions == 2
    assert serve(reuse, "low again", list(range(9))) == 0


def test_a_duration_ends() -> None:
    def hits_after(seconds: float) -> int:
        reuse = BlockReuse(4, 4)
        serve(reuse, "kept", list(range(8)), now=0.0, retention=Retention((TokenRange(0, None, 90, 30.0),)))
        serve(reuse, "plain", list(range(100, 108)), now=1.0)
        serve(reuse, "other", list(range(200, 208)), now=seconds)
        serve(reuse, "another", list(range(300, 308)), now=seconds)
        return serve(reuse, "kept again", list(range(9))[:8], now=seconds)

    # Half of a prompt of two blocks can be hit: the last token is always computed.
    assert hits_after(29.0) == 4
    assert hits_after(30.0) == 0


def test_a_parent_that_goes_takes_its_children() -> None:
    reuse = BlockReuse(4, 4)
    low_head = Retention((TokenRange(0, 4, 1), TokenRange(4, None, 90)))
    serve(reuse, "request", list(range(8)), retention=low_head)
    gone: list[object] = []
    reuse.tree.on_evicted = gone.append
    serve(reuse, "other", list(range(100, 104)))
    assert len(gone) == 2


@pytest.mark.parametrize("values", [(0, 4, 101), (0, 4, -1), (4, 4, 50), (0, None, 50, -1.0)])
def test_impossible_retentions_are_refused(values: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"priority|range|duration"):
        TokenRange(*values)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 2), min_size=1, max_size=24), st.booleans(), st.sampled_from([5, 35, 90])
        ),
        max_size=40,
    )
)
def test_blocks_are_never_lost(requests: list[tuple[list[int], bool, int]]) -> None:
    reuse = BlockReuse(12, 4)
    running = []
    for now, (prompt, stays, priority) in enumerate(requests):
        retention = Retention((TokenRange(0, None, priority, 3.0),))
        state = reuse.track(Request(str(now), prompt_token_ids=prompt), retention)
        if reuse.admit(state, len(prompt), now=now):
            running.append(state)
        if running and not stays:
            reuse.finish(running.pop(0), now)
        held = {block for state in running for block in state.blocks}
        assert reuse.tree.num_held == len(held)
        assert reuse.tree.num_free == 12 - len(held)
    for state in running:
        reuse.finish(state, 1e6)
    assert reuse.tree.num_free == 12


def test_an_empty_pool_gives_nothing() -> None:
    tree = BlockTree(1)
    tree.take(None, None)
    with pytest.raises(ValueError, match="no block is free"):
        tree.take(None, None)
