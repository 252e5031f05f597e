"""TensorRT-LLM's rules against the outcomes that the engine's own unit tests expect.

``cpp/tests/unit_tests/batch_manager/kvCacheManagerTest.cpp`` at commit fb6d3613, which runs on a GPU: blocks of
four tokens. It has partial reuse on; without it a hit of 11 tokens is one of 8, two full blocks.
"""

from hitcurve_simulator.trtllm import BlockReuse, Retention, TokenRange
from hitcurve_simulator.vllm import Request, RequestState

FIRST, SECOND, THIRD = list(range(12)), list(range(12, 24)), list(range(24, 36))


def start(
    reuse: BlockReuse, prompt: list[int], retention: Retention | None = None, output: int = 0, now: float = 0.0
) -> RequestState:
    """A request that holds its prompt and the room for its output."""
    name = f"{len(prompt)} from {prompt[0]} at {now}"
    state = reuse.track(Request(name, prompt_token_ids=prompt), retention or Retention())
    assert reuse.admit(state, len(prompt), output, now)
    return state


def end(reuse: BlockReuse, state: RequestState, output: int = 0, now: float = 0.0) -> None:
    if output:
        reuse.append_output(state, [0] * output)
    reuse.finish(state, now)


def all_tokens(priority: int, duration_s: float | None = None, decode: int | None = None) -> Retention:
    return Retention((TokenRange(0, None, priority, duration_s),), decode_priority=decode)


def test_block_priority() -> None:
    """``BlockManagerBlockPriorityTest``."""
    reuse = BlockReuse(4, 4)
    first = start(reuse, FIRST[:8], Retention((TokenRange(0, 4, 90), TokenRange(4, 8, 10)), decode_priority=20))
    second = start(reuse, list(range(8, 16)))
    end(reuse, first)
    end(reuse, second)
    end(reuse, start(reuse, list(range(16, 24)), all_tokens(20, decode=20)))
    again = start(reuse, list(range(8, 16)), now=1.0)
    assert again.hit_tokens == 4
    end(reuse, again)
    assert reuse.tree.num_free == 4
    assert start(reuse, FIRST[:8], now=1.0).hit_tokens == 4
    assert start(reuse, list(range(16, 24)), now=1.0).hit_tokens == 0


def test_decode_block_priority() -> None:
    """``KVCacheManagerDecodeBlockPriorityTest``: of the low-priority request the blocks released first go."""
    reuse = BlockReuse(8, 4)
    first = start(reuse, FIRST, all_tokens(90, decode=90), output=1)
    assert reuse.tree.num_free == 4
    second = start(reuse, SECOND, all_tokens(5, decode=5), output=1)
    assert reuse.tree.num_free == 0
    end(reuse, first, output=1)
    end(reuse, second, output=1)
    assert reuse.tree.num_free == 8
    end(reuse, start(reuse, THIRD))
    assert start(reuse, FIRST, now=1.0).hit_tokens == 8


def test_timed_eviction() -> None:
    """``KVCacheManagerTimedEvictionTest``: after 50 ms a priority of 80 for 10 ms is less than one of 50."""
    reuse = BlockReuse(8, 4)
    end(reuse, start(reuse, FIRST, all_tokens(80, 0.010, decode=80)))
    end(reuse, start(reuse, SECOND, all_tokens(50, decode=80)))
    end(reuse, start(reuse, [1] * 12, now=0.05), now=0.05)
    assert start(reuse, SECOND, now=0.06).hit_tokens == 8


def test_decode_timed_eviction() -> None:
    """``KVCacheManagerDecodeTimedEvictionTest``: the third block of the second request is overwritten."""
    reuse = BlockReuse(9, 4)
    first = start(reuse, [1, *FIRST[1:]], all_tokens(50, decode=50), output=3)
    end(reuse, first, output=3)
    second = start(reuse, FIRST, Retention((), decode_priority=100, decode_duration_s=0.020), output=3)
    end(reuse, second, output=3)
    end(reuse, start(reuse, [0] * 8, now=0.05), now=0.05)
    assert start(reuse, FIRST, now=0.06).hit_tokens == 8


def test_a_head_of_low_priority_goes_before_what_is_below_it() -> None:
    """``KVCacheManagerLeafBlockWithDependentTest``: with a middle block of priority 75 the third and the first
    block are used next, although the first has blocks below it."""
    reuse = BlockReuse(4, 4)
    first = start(reuse, FIRST, Retention((TokenRange(4, 8, 75),)))
    third, head = first.blocks[2], first.blocks[0]
    start(reuse, [100, 101, 102, 103])
    assert reuse.tree.num_free == 0
    end(reuse, first)
    assert reuse.tree.num_free == 3
    taken = [reuse.tree.take(None, None) for _ in range(2)]
    assert taken == [third, head]
