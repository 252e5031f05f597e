"""Random operations for vLLM's KV cache manager with sliding windows and several groups, with our answers."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from block_sequences import OperationWriter, features_of

from hitcurve_simulator.vllm import Request, RequestState, VllmRules, rules_of_version
from hitcurve_simulator.vllm_groups import Attention, FullAttention, GroupedCacheManager, SlidingWindow

__all__ = ["random_runs"]

# Block sizes of full attention and of windows; a window's tokens are drawn.
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), (4,)),
    ((4,), (4,)),
    ((4, 4), (4, 4, 4)),
    ((8,), (4,)),
    ((8,), (4, 4)),
    ((4,), (8,)),
    ((4,), (8, 4)),
    ((12,), (8,)),
    ((), (4, 8)),
)


class OurGroups:
    """Our rules behind the operations of ``vllm_v1_manager.py``."""

    def __init__(
        self, num_blocks: int, groups: list[Attention], rules: VllmRules, eagle: bool, in_flight: int | None
    ) -> None:
        self.manager = GroupedCacheManager(
            num_blocks, groups, rules, drops_last_hit_block=eagle, in_flight_tokens=in_flight
        )
        self.states: dict[str, RequestState] = {}
        self.pool = self.manager.pool
        self.evicted: list[int] = []
        self.pool.on_evicted = lambda block, key, gone: self.evicted.append(block)

    def play(self, operation: Sequence[Any]) -> list[Any]:
        name, *arguments = operation
        self.evicted = []
        result = getattr(self, name)(*arguments)
        held = self.manager.blocks_of(arguments[0]) if arguments and name != "free" else []
        return [result, self.evicted, held]

    def end(self) -> list[Any]:
        counted = self.manager.statistics
        return ["end", [], list(self.pool.free_queue), [counted.requests, counted.queries, counted.hits]]

    def admit(
        self,
        request_id: str,
        prompt: list[int],
        chunk: int,
        lookahead: int,
        adapter: str | None,
        salt: str | None,
        skip: bool,
        external: int = 0,
    ) -> int | None:
        request = Request(
            request_id,
            prompt_token_ids=prompt,
            adapter=adapter,
            adapter_path=f"/{adapter}",
            cache_salt=salt,
            skip_reading_prefix_cache=skip,
        )
        self.states[request_id] = self.manager.track(request)
        return self._admit(request_id, chunk, lookahead, external)

    def again(self, request_id: str, chunk: int) -> int | None:
        return self._admit(request_id, chunk)

    def compute(self, request_id: str, tokens: int) -> bool:
        state = self.states[request_id]
        if not self.manager.allocate(state, tokens):
            return False
        state.computed_tokens += tokens
        return True

    def append(self, request_id: str, tokens: list[int]) -> None:
        self.manager.append_output(self.states[request_id], tokens)

    def preempt(self, request_id: str) -> None:
        self.manager.preempt(self.states[request_id])

    def free(self, request_id: str) -> None:
        self.manager.free(self.states.pop(request_id))

    def reset(self) -> bool:
        return self.manager.reset_prefix_cache()

    def _admit(self, request_id: str, chunk: int, lookahead: int = 0, external: int = 0) -> int | None:
        state = self.states[request_id]
        hit = self.manager.lookup(state)
        external = max(min(external, state.num_tokens - hit.tokens - 1), 0)
        tokens = min(chunk, state.num_tokens - hit.tokens - external)
        if not self.manager.admit(state, tokens, hit, lookahead, external):
            return None
        state.computed_tokens = hit.tokens + external + tokens
        return hit.tokens


class GroupWriter(OperationWriter):
    """Draws groups, and the operations that a single group gets too."""

    def __init__(self, seed: int, rules: VllmRules) -> None:
        self.dice = random.Random(seed)
        self.groups = self._groups()
        sizes = {attention.block_size for attention in self.groups}
        self.num_blocks = self.dice.randint(8, 24) * (len(self.groups) + 1)
        self.salts = (None, None, None, "salt")
        self.eagle = len(sizes) == 1 and self.dice.random() < 0.5
        self.external = (0, 0, 0, 4, 7, 16)
        self.in_flight = self.dice.choice((None, 8, 16))
        self.ours = OurGroups(  # type: ignore[assignment]
            self.num_blocks, self.groups, rules, self.eagle, self.in_flight
        )
        self.operations = []
        self.answers = []
        self.running = []
        self.preempted = []
        self.prompts = []

    def _groups(self) -> list[Attention]:
        full, windows = self.dice.choice(SHAPES)
        same = self.dice.randint(2, 20) if self.dice.random() < 0.5 else None
        groups: list[Attention] = [FullAttention(size) for size in full]
        groups += [SlidingWindow(size, same or self.dice.randint(2, 20)) for size in windows]
        self.dice.shuffle(groups)
        return groups


def random_runs(version: str, first_seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Sequences with the answers we expect of a version from 0.24 on."""
    rules = rules_of_version(version)
    for seed in range(first_seed, first_seed + count):
        writer = GroupWriter(seed, rules)
        writer.write()
        yield {
            "name": f"seed {seed}, {writer.groups}",
            "num_blocks": writer.num_blocks,
            "block_size": writer.ours.manager.block_size,
            "operations": writer.operations,
            "expected": writer.answers,
            "eagle": writer.eagle,
            "groups": [[group.block_size, getattr(group, "window", None)] for group in writer.groups],
            "in_flight": writer.in_flight,
            "features": [*features_of(writer.operations, writer.eagle), *_shape(writer)],
        }


def _shape(writer: GroupWriter) -> list[str]:
    """What of the groups a count is kept of."""
    alike = Counter(writer.groups)
    sizes = {group.block_size for group in writer.groups}
    shape = ["one window only" if len(writer.groups) == 1 else f"{len(writer.groups)} groups"]
    shape += ["several block sizes"] * (len(sizes) > 1) + ["several kinds of window"] * (len(alike) > 2)
    held = [held for answer in writer.answers for held in answer[2] if isinstance(held, list)]
    return shape + ["null blocks held"] * sum(0 in blocks for blocks in held)
