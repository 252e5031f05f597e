"""The live curve over pool sizes: against the estimator's exact curve, and against what an engine found."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from hitcurve_engine.pool_curve import POOL_SIZES, PoolCurve
from hitcurve_engine.pool_curve.layered_stack import LayeredStack
from hitcurve_engine.pool_curve.seen_sample import SeenSample, place_of
from hitcurve_engine.pool_curve.sizes import RATIOS
from hitcurve_simulator.estimate.chains import chains_of
from hitcurve_simulator.estimate.hit_curve import hit_curve_of
from hitcurve_simulator.simulate.vllm_replay import VllmReplay, VllmReplaySettings
from hitcurve_simulator.traces import TraceRow, read_trace
from hitcurve_simulator.vllm import DEFAULT_VERSION, Request, rules_of_version

SIZE = 16
EVERY_BLOCK = 1 << 20


@dataclass
class Played:
    """What a curve said of a trace, beside the estimator's exact rates and the rate that vLLM's rules reached."""

    said: dict[str, float]
    exact: dict[str, float]
    measured: float
    curve: PoolCurve

    def worst(self) -> float:
        return max(abs(self.said[size] - self.exact[size]) for size in POOL_SIZES)


def row(line: int, ids: Sequence[object], rest: int = 7) -> TraceRow:
    request = Request(f"line {line}", block_contents=tuple(ids), prompt_length=len(ids) * SIZE + rest)
    return TraceRow(line, request, block_ids=list(ids))


def conversations(seed: int, requests: int) -> list[TraceRow]:
    """One system prompt of 40 blocks that everybody shares, and conversations that grow, the later ones more."""
    dice = random.Random(seed)
    system = [dice.getrandbits(62) for _ in range(40)]
    talks: list[list[int]] = []
    rows = []
    for line in range(1, requests + 1):
        if not talks or dice.random() > 0.7:
            talks.append(list(system))
            talk = talks[-1]
        else:
            talk = talks[int(len(talks) * dice.random() ** 0.5)]
        talk += [dice.getrandbits(62) for _ in range(dice.randint(2, 12))]
        rows.append(row(line, talk))
    return rows


def strangers(seed: int, requests: int) -> list[TraceRow]:
    """Prompts that nobody repeats."""
    dice = random.Random(seed)
    return [row(line, [dice.getrandbits(62) for _ in range(20)]) for line in range(1, requests + 1)]


def play(rows: Sequence[TraceRow], pool: int, most_keys: int, size: int = SIZE) -> Played:
    """One request after the other, as the replay calls the curve: stored, scheduled, released."""
    accesses = chains_of(rows, size, size).engine
    engine = VllmReplay(VllmReplaySettings(rules_of_version(DEFAULT_VERSION), size, pool)).run(rows)
    curve = PoolCurve(size, pool, most_keys)
    for number, served in enumerate(engine.served):
        keys = accesses.keys[accesses.starts[number] : accesses.starts[number + 1]].tolist()
        curve.looked_up(f"r{number}", keys, int(accesses.tokens[number]), served.hit_tokens)
        curve.stored(f"r{number}", keys[served.hit_tokens // size :])
        curve.scheduled(f"r{number}")
        curve.released(f"r{number}", finished=True)
    sums = curve.sums()
    assert sums.query_tokens == engine.query_tokens
    truth = hit_curve_of(accesses)
    pools = np.array([max(1, round(ratio * pool)) for ratio in RATIOS] + [truth.largest_pool])
    exact = truth.hit_tokens(pools) / truth.query_tokens
    return Played(
        {name: tokens / sums.query_tokens for name, tokens in sums.hit_tokens.items()},
        dict(zip(POOL_SIZES, exact.tolist(), strict=True)),
        engine.hit_tokens / engine.query_tokens,
        curve,
    )


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.sampled_from([0, 7])),
        min_size=1,
        max_size=14,
    ),
    st.integers(6, 20),
)
@settings(max_examples=150, deadline=None)
def test_with_every_block_followed_it_is_the_exact_curve(prompts: list[tuple[list[int], int]], pool: int) -> None:
    played = play([row(line, ids, rest) for line, (ids, rest) in enumerate(prompts, 1)], pool, EVERY_BLOCK)
    assert played.said == pytest.approx(played.exact, abs=1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_sixteenth_of_the_blocks_tells_every_size_within_two_points(seed: int) -> None:
    played = play(conversations(seed, 3000), 4000, 2 * 1000)
    sums = played.curve.sums()
    assert sums.sampled_share == pytest.approx(1 / 16, rel=1e-6)
    assert played.exact["unlimited"] - played.exact["0.5x"] > 0.1
    assert played.worst() < 0.02, (played.said, played.exact)
    assert sums.keys <= 2000


def test_at_the_present_size_it_says_what_the_engine_measures() -> None:
    for rows in (conversations(4, 2000), strangers(5, 1000)):
        played = play(rows, 3000, 2 * 1500)
        assert played.said["1x"] == pytest.approx(played.measured, abs=0.005)


def test_traffic_without_hits_reads_exactly_zero_in_every_pool() -> None:
    """Sampled blocks alone would give some of it away to rounding; here they only tell differences."""
    assert set(play(strangers(6, 500), 1000, 250).said.values()) == {0.0}


def test_a_public_trace_within_one_point(shared: Path) -> None:
    trace = shared / "traces" / "mooncake_fast25_conversation_trace.jsonl"
    played = play(read_trace(trace, 512).rows[:4000], 6000, 2 * 3000, 512)
    assert played.exact["unlimited"] - played.exact["0.5x"] > 0.1
    assert played.curve.sums().sampled_share == pytest.approx(1 / 8, rel=1e-6)
    assert played.worst() < 0.01, (played.said, played.exact)
    assert played.said["1x"] == pytest.approx(played.measured, abs=0.01)


def test_a_lookup_counts_once_and_as_it_was_before_its_own_blocks_were_cached() -> None:
    curve = PoolCurve(SIZE, 10, EVERY_BLOCK)
    for _ in range(3):
        curve.looked_up("waits", [1, 2], 33, 0)
    assert curve.sums().query_tokens == 0
    curve.stored("waits", [1, 2])
    curve.scheduled("waits")
    curve.released("waits", finished=False)
    curve.looked_up("waits", [1, 2], 40, 32)
    curve.scheduled("waits")
    sums = curve.sums()
    assert (sums.query_tokens, set(sums.hit_tokens.values())) == (33, {0})


def test_a_request_that_may_not_read_is_no_query_but_leaves_its_blocks() -> None:
    curve = PoolCurve(SIZE, 10, EVERY_BLOCK)
    curve.looked_up("skips", [1, 2], 33, 0, skipped=True)
    curve.stored("skips", [1, 2])
    curve.scheduled("skips")
    curve.looked_up("reads", [1, 2], 33, 32)
    curve.scheduled("reads")
    sums = curve.sums()
    assert (sums.query_tokens, set(sums.hit_tokens.values())) == (33, {32})


def test_an_aborted_request_leaves_no_trace() -> None:
    curve = PoolCurve(SIZE, 10, EVERY_BLOCK)
    curve.looked_up("gone", [1], 17, 0)
    curve.released("gone", finished=True)
    curve.scheduled("gone")
    assert curve.sums().query_tokens == 0


def test_a_reset_empties_pools_of_every_size() -> None:
    curve = PoolCurve(SIZE, 10, EVERY_BLOCK)
    for name in ("before", "after"):
        curve.looked_up(name, [1], 17, 0)
        curve.stored(name, [1])
        curve.scheduled(name)
        curve.released(name, finished=True)
        curve.reset()
    assert set(curve.sums().hit_tokens.values()) == {0}


def test_where_the_keys_are_unknown_every_pool_finds_what_the_engine_found() -> None:
    curve = PoolCurve(SIZE, 10, EVERY_BLOCK)
    curve.looked_up("r", None, 33, 16)
    curve.scheduled("r")
    assert set(curve.sums().hit_tokens.values()) == {16}


def test_blocks_in_use_stay_recent_until_they_are_given_back() -> None:
    """A pool of 4: the long request's two blocks are followed by three others, then given back."""
    curve = PoolCurve(SIZE, 4, EVERY_BLOCK)
    curve.stored("long", [1, 2])
    for key in (11, 12, 13):
        curve.stored(f"short {key}", [key])
        curve.released(f"short {key}", finished=True)
    curve.released("long", finished=True)
    curve.looked_up("again", [1, 2], 33, 32)
    curve.scheduled("again")
    sums = curve.sums()
    assert (sums.hit_tokens["0.5x"], sums.hit_tokens["1x"]) == (32, 32)


class StackMachine(RuleBasedStateMachine):
    """The layers against one list of keys."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = [1, 1, 3, 4, 8]
        self.stack = LayeredStack(self.sizes)
        self.order: list[int] = []

    @rule(key=st.integers(0, 11))
    def use(self, key: int) -> None:
        self.stack.use([key])
        self.order = [key, *(other for other in self.order if other != key)][: self.sizes[-1]]

    @rule()
    def clear(self) -> None:
        self.stack.clear()
        self.order = []

    @invariant()
    def each_key_is_in_the_pools_that_it_fits(self) -> None:
        assert len(self.stack) == len(self.order)
        for key in range(12):
            smallest = self.stack.smallest_with(key)
            for place, size in enumerate(self.sizes):
                assert (place >= smallest) == (key in self.order[:size]), (key, size)


def test_layers_are_the_fronts_of_one_list() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        StackMachine, settings=settings(max_examples=100, stateful_step_count=40, deadline=None)
    )


def keys(count: int) -> Iterator[int]:
    dice = random.Random(7)
    return (dice.getrandbits(61) for _ in range(count))


def test_the_sample_of_all_keys_ever_thins_out_and_never_forgets_below_its_threshold() -> None:
    sample = SeenSample(100)
    for key in keys(5000):
        sample.add([key])
        assert len(sample) <= 100
    below = {key for key in keys(5000) if place_of(key) < sample.threshold}
    assert {key for key in keys(5000) if key in sample} == below
    assert len(below) > 30


def test_sums_never_fall_although_estimates_waver() -> None:
    """One sampled block in four: what it says of 1 block is taken for 4."""
    curve = PoolCurve(SIZE, 8, 16)
    before = curve.sums()
    for number, key in enumerate([*keys(60), *keys(60)]):
        curve.looked_up(f"r{number}", [key], 17, 16 if number % 3 else 0)
        curve.stored(f"r{number}", [key])
        curve.scheduled(f"r{number}")
        curve.released(f"r{number}", finished=True)
        sums = curve.sums()
        assert all(sums.hit_tokens[size] >= before.hit_tokens[size] for size in POOL_SIZES)
        assert list(sums.hit_tokens.values()) == sorted(sums.hit_tokens.values())
        assert max(sums.hit_tokens.values()) <= sums.query_tokens
        before = sums
