"""The pool stays consistent through any sequence of operations, and every request comes to an end."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hitcurve_engine.ledger import Ledger, Outcome
from hitcurve_simulator.simulate.ledger_feed import LedgerFeed
from hitcurve_simulator.vllm import (
    NULL_BLOCK,
    CacheManager,
    Request,
    RequestRejected,
    Scheduler,
    SchedulerSettings,
    rules_of_version,
)

BLOCK_SIZE = 2
TOKENS = st.sampled_from((1, 2, 3))


class AnyTraffic(RuleBasedStateMachine):
    """Requests over three letters: prefixes branch and repeat; adapters, salts, skips, resets, aborts."""

    @initialize(
        num_blocks=st.integers(3, 14),
        version=st.sampled_from(("0.8.5", "0.18.1", "0.23.0", "0.32.0")),
        budget=st.integers(1, 20),
        max_num_seqs=st.integers(1, 5),
        max_adapters=st.sampled_from((None, 1)),
    )
    def start(
        self, num_blocks: int, version: str, budget: int, max_num_seqs: int, max_adapters: int | None
    ) -> None:
        self.outcomes: list[Outcome] = []
        self.ledger = Ledger(BLOCK_SIZE, ghosts_per_block=1e6, on_outcome=self.outcomes.append)
        self.manager = CacheManager(
            num_blocks,
            BLOCK_SIZE,
            rules_of_version(version),
            observer=LedgerFeed(self.ledger, lambda: 0.0, BLOCK_SIZE, isolating=True),
        )
        self.pool = self.manager.pool
        limits = SchedulerSettings(budget, max_num_seqs, max_adapters=max_adapters)
        self.scheduler = Scheduler(self.manager, limits, next_token=lambda state: len(state.keys) % 3 + 1)
        self.added = 0

    @rule(
        prompt=st.lists(TOKENS, min_size=1, max_size=16),
        output=st.integers(1, 8),
        adapter=st.sampled_from((None, None, "a", "b")),
        salt=st.sampled_from((None, None, "s")),
        skip=st.sampled_from((False, False, False, True)),
        twice=st.booleans(),
    )
    def add(
        self, prompt: list[int], output: int, adapter: str | None, salt: str | None, skip: bool, twice: bool
    ) -> None:
        for _ in range(2 if twice else 1):
            self.added += 1
            request = Request(
                f"r{self.added}",
                prompt,
                max_output_tokens=output,
                adapter=adapter,
                cache_salt=salt,
                skip_reading_prefix_cache=skip,
            )
            try:
                self.scheduler.add(request)
            except RequestRejected:
                assert self.manager.blocks_for(len(prompt) + output - 1) > self.pool.num_blocks - 1

    @rule(steps=st.integers(1, 6))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            outcome = self.scheduler.step()
            assert sum(work.tokens for work in outcome.work) <= self.scheduler.settings.max_num_batched_tokens
            assert outcome.running <= self.scheduler.settings.max_num_seqs
            if outcome.idle:
                # Nothing runs: everything was preempted by the others' growth, or there is nothing.
                assert not self.scheduler.running

    @precondition(lambda self: self.scheduler.has_requests)
    @rule(which=st.integers(0, 10))
    def abort(self, which: int) -> None:
        states = [*self.scheduler.running, *self.scheduler.waiting]
        self.scheduler.finish(states[which % len(states)].request_id)

    @rule(preempt=st.booleans())
    def reset(self, preempt: bool) -> None:
        held = self.pool.num_used
        done = self.scheduler.reset_prefix_cache(preempt_running=preempt)
        assert done == (preempt or not held)
        if done:
            assert self.pool.num_cached_keys == 0

    @invariant()
    def blocks_are_held_or_free(self) -> None:
        if not hasattr(self, "pool"):
            return
        holders: dict[int, int] = {}
        for state in self.scheduler.running:
            assert len(set(state.blocks)) == len(state.blocks)
            for block in state.blocks:
                holders[block] = holders.get(block, 0) + 1
        assert all(not state.blocks for state in self.scheduler.waiting)
        free = list(self.pool.free_queue)
        everything = set(range(1, self.pool.num_blocks))
        assert NULL_BLOCK not in holders
        assert len(free) == len(set(free)) == self.pool.num_free
        assert set(free).isdisjoint(holders)
        assert set(free) | set(holders) == everything
        assert self.pool.num_used == len(holders)
        for block in everything:
            assert self.pool.reference_count(block) == holders.get(block, 0)

    @invariant()
    def table_names_exactly_the_hashed_blocks(self) -> None:
        if not hasattr(self, "pool"):
            return
        by_key: dict[object, set[int]] = {}
        for block in range(1, self.pool.num_blocks):
            if (key := self.pool.key_of(block)) is not None:
                by_key.setdefault(key, set()).add(block)
        assert self.pool.key_of(NULL_BLOCK) is None
        assert self.pool.num_cached_keys == len(by_key)
        for key, blocks in by_key.items():
            copies = self.pool.copies_of(key)
            assert set(copies) == blocks
            assert self.pool.cached_block(key) == copies[0]
        for state in self.scheduler.running:
            for block, key in zip(state.blocks[: state.cached_blocks], state.keys, strict=False):
                assert self.pool.key_of(block) == key

    @invariant()
    def ledger_agrees(self) -> None:
        if not hasattr(self, "pool"):
            return
        totals = self.ledger.totals
        assert totals.hit_tokens + sum(totals.miss_tokens.values()) == totals.query_tokens
        assert totals.evicted_blocks == self.pool.evictions
        assert totals.unknown_evictions == totals.anomalies == 0
        assert self.ledger.cached_keys == self.pool.num_cached_keys

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for _ in range(3000):
            if not self.scheduler.has_requests:
                break
            self.scheduler.step()
        assert not self.scheduler.has_requests, "requests starve"
        assert self.pool.num_used == 0
        assert self.scheduler.reset_prefix_cache()
        for outcome in self.outcomes:
            if outcome.status == "looked_up":
                assert outcome.hit_tokens is not None
                assert outcome.miss_tokens is not None
                assert outcome.hit_tokens + sum(outcome.miss_tokens.values()) == outcome.query_tokens


AnyTraffic.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
test_any_traffic = AnyTraffic.TestCase


@settings(max_examples=60, deadline=None)
@given(prompts=st.lists(st.lists(TOKENS, min_size=1, max_size=12), min_size=1, max_size=20))
def test_an_unlimited_cache_hits_the_longest_prefix_ever_seen(prompts: list[list[int]]) -> None:
    manager = CacheManager(None, BLOCK_SIZE)
    seen: set[tuple[int, ...]] = set()
    for number, prompt in enumerate(prompts):
        expected = 0
        for end in range(BLOCK_SIZE, len(prompt), BLOCK_SIZE):
            if tuple(prompt[:end]) not in seen:
                break
            expected = end
        state = manager.track(Request(str(number), prompt))
        found = manager.lookup(state)
        assert len(found) * BLOCK_SIZE == expected
        assert manager.admit(state, len(prompt) - expected, found)
        manager.finish(state)
        seen.update(tuple(prompt[:end]) for end in range(BLOCK_SIZE, len(prompt) + 1, BLOCK_SIZE))
