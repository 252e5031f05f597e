"""An engine that serves wrong blocks answers wrongly; one that serves the right ones answers as ever."""

from collections.abc import Callable, Hashable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve_simulator.server.block_memory import BlockMemory, misread
from hitcurve_simulator.vllm import CacheManager, Request, Scheduler
from hitcurve_simulator.vllm.block_keys import InterningHasher

BLOCK = 4
Hasher = Callable[[Hashable, Hashable, Any], Hashable]


def right_keys() -> Hasher:
    return InterningHasher()


def keys_without_extras() -> Hasher:
    right = InterningHasher()
    return lambda parent, content, extra: right(parent, content, None)


def keys_without_parents() -> Hasher:
    right = InterningHasher()
    return lambda parent, content, extra: right(None, content, extra)


class World:
    """A scheduler whose blocks are remembered; ``ask`` tells whether the request read wrong blocks."""

    def __init__(self, hasher: Hasher, blocks: int = 64) -> None:
        self.memory = BlockMemory(BLOCK)
        manager = CacheManager(blocks, BLOCK, hasher=hasher, observer=self.memory)
        self.wrong: list[int | None] = []
        self.scheduler = Scheduler(manager, next_token=self._token)
        self.asked = 0

    def _token(self, state: Any) -> int:
        self.wrong.append(self.memory.wrong(state))
        return 7

    def ask(self, prompt: list[int], adapter: str | None = None) -> bool:
        self.asked += 1
        self.scheduler.add(Request(str(self.asked), prompt, adapter=adapter, adapter_path="p" if adapter else ""))
        while self.scheduler.has_requests:
            self.scheduler.step()
        return self.wrong[-1] is not None


PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=14)


@settings(deadline=None)
@given(st.lists(st.tuples(PROMPTS, st.sampled_from([None, "a", "b"])), max_size=12), st.integers(5, 20))
def test_right_keys_never_read_wrong_blocks(asked: list[tuple[list[int], str | None]], blocks: int) -> None:
    world = World(right_keys(), blocks)
    assert [world.ask(prompt, adapter) for prompt, adapter in asked] == [False] * len(asked)


def test_a_cache_that_forgets_the_adapter_answers_wrongly() -> None:
    world = World(keys_without_extras())
    prompt = list(range(9))
    assert [world.ask(prompt), world.ask(prompt), world.ask(prompt, "a")] == [False, False, True]


def test_a_cache_that_forgets_the_parent_answers_wrongly() -> None:
    world = World(keys_without_parents())
    first, second, third = [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]
    assert world.ask([*first, *second, 9]) is False
    assert world.ask([*second, *first, 9]) is True
    assert world.ask([*third, *second, 9]) is False, "its first block misses, so nothing after it is read"
    assert world.ask([*third, *first, 9]) is True


def test_what_was_misread_changes_the_rest_of_the_reply_and_not_its_length() -> None:
    reply = [*b"some words", 257]
    changed = misread(reply, 4, 12345)
    assert changed[:4] == reply[:4]
    assert len(changed) == len(reply)
    assert changed[-1] == 257
    assert changed != reply
    assert changed == misread(reply, 4, 12345)


@pytest.mark.parametrize("computed", [8, 9])
def test_a_hit_of_every_token_leaves_nothing_to_answer_from(computed: int) -> None:
    memory = BlockMemory(BLOCK)
    manager = CacheManager(8, BLOCK)
    state = manager.track(Request("r", list(range(computed))))
    memory.scheduled(state, 8)
    assert (memory.wrong(state) is not None) == (computed == 8)
