"""Shares, isolation, routing, block sizes: against the rules of the simulator and counting by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve_simulator.estimate.chains import chains_of
from hitcurve_simulator.estimate.estimate import Estimator, pool_grid
from hitcurve_simulator.estimate.routing import POLICIES, route
from hitcurve_simulator.estimate.traffic import Traffic
from hitcurve_simulator.simulate.lru_replay import LruReplay
from hitcurve_simulator.simulate.vllm_replay import VllmReplay, VllmReplaySettings
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.traces.text import TextPieces
from hitcurve_simulator.vllm import DEFAULT_VERSION, Request, rules_of_version

SIZE = 4


def row(
    line: int,
    tokens: Sequence[int],
    adapter: str | None = None,
    salt: str | None = None,
    tenant: str | None = None,
) -> TraceRow:
    request = Request(f"line {line}", prompt_token_ids=list(tokens), adapter=adapter, cache_salt=salt)
    return TraceRow(line, request, tenant=tenant)


def estimator(rows: Sequence[TraceRow], size: int = SIZE) -> Estimator:
    return Estimator(Traffic("test", ("plain",), size, tuple(rows), (0,) * len(rows), TextPieces()))


@st.composite
def traffic(draw: st.DrawFn) -> list[TraceRow]:
    rows = []
    for line in range(1, draw(st.integers(1, 12)) + 1):
        letters = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
        tokens = [letter for letter in letters for _ in range(SIZE)]
        tokens = tokens[: len(tokens) - draw(st.integers(0, SIZE - 1))]
        rows.append(row(line, tokens, draw(st.sampled_from([None, "a"])), draw(st.sampled_from([None, "s", "t"]))))
    return rows


@given(traffic())
@settings(max_examples=100, deadline=None)
def test_without_a_limit_the_shares_are_the_ledgers_miss_reasons(rows: list[TraceRow]) -> None:
    rules = rules_of_version(DEFAULT_VERSION)
    direct = VllmReplay(VllmReplaySettings(rules, SIZE, None)).run(rows)
    (shares,) = estimator(rows).shares([None])
    assert shares.hit == direct.hit_tokens
    found = {"compulsory": shares.compulsory, "isolated": shares.isolated, "tail": shares.tail}
    assert found == {name: direct.miss_tokens.get(name, 0) for name in found}
    assert shares.capacity == 0


@given(traffic(), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_shares_add_up_at_every_size(rows: list[TraceRow], pool: int) -> None:
    one = estimator(rows)
    for shares in one.shares([pool, None]):
        fates = (shares.hit, shares.compulsory, shares.capacity, shares.isolated, shares.tail)
        assert sum(fates) == one.curves.engine.query_tokens
        assert min(fates) >= 0
        assert shares.hit == one.curves.engine.tokens_in(shares.pool_blocks)


@given(traffic())
@settings(max_examples=50, deadline=None)
def test_isolation_variants_are_replays_of_rows_with_other_namespaces(rows: list[TraceRow]) -> None:
    for variant in estimator(rows).isolation():
        other = [
            row(
                one.line,
                one.request.prompt_token_ids or (),
                one.request.adapter if "adapter" in variant.isolated_by else None,
                one.request.cache_salt if "salt" in variant.isolated_by else None,
            )
            for one in rows
        ]
        curve = estimator(other).curves.engine
        pools = np.arange(1, 20)
        assert variant.curve.hit_tokens(pools).tolist() == curve.hit_tokens(pools).tolist()


def test_tenants_kept_apart_find_only_their_own() -> None:
    rows = [row(line, [1] * 9, tenant=tenant) for line, tenant in enumerate("xxyy", 1)]
    variants = estimator(rows).isolation()
    assert [(one.isolated_by, one.as_it_is, one.curve.tokens_in(None)) for one in variants] == [
        ((), True, 24),
        (("tenant",), False, 16),
    ]


def test_groups_share_the_pool_and_rows_without_a_value_are_a_group() -> None:
    rows = [row(1, [1] * 9, tenant="x"), row(2, [1] * 9), row(3, [2] * 9, tenant="x")]
    groups = estimator(rows).groups("tenant")
    assert [(group.name, group.requests, group.curve.tokens_in(None)) for group in groups] == [
        ("x", 2, 0),
        ("(none)", 1, 8),
    ]


@given(traffic(), st.integers(1, 4), st.sampled_from(["round-robin", "random"]))
@settings(max_examples=60, deadline=None)
def test_replicas_are_pools_of_their_own(rows: list[TraceRow], replicas: int, policy: str) -> None:
    bound = chains_of(rows, SIZE, SIZE).bound
    routed = route(bound, replicas, policy, seed=7)
    if policy == "random":
        again = route(bound, replicas, policy, seed=7)
        assert again.curve.tokens_in(3) == routed.curve.tokens_in(3)
        return
    for pool in (1, 2, 3, 5, None):
        direct = sum(LruReplay(SIZE, pool).run(rows[start::replicas]).hit_tokens for start in range(replicas))
        assert routed.curve.tokens_in(pool) == direct


@pytest.mark.parametrize("policy", POLICIES)
def test_one_replica_is_no_routing(policy: str) -> None:
    rows = [row(line, [line % 3] * 9) for line in range(1, 8)]
    accesses = chains_of(rows, SIZE, SIZE).engine
    whole = estimator(rows).curves.engine
    routed = route(accesses, 1, policy, seed=0)
    assert [routed.curve.tokens_in(pool) for pool in (1, 2, None)] == [
        whole.tokens_in(pool) for pool in (1, 2, None)
    ]
    assert routed.busiest_share == 1.0


def test_affinity_follows_a_long_prefix_and_spreads_the_rest() -> None:
    system, first, second = [9] * 4, [1] * 12, [2] * 12
    rows = [row(1, system + first), row(2, system + second), row(3, system + first), row(4, system + second)]
    routed = route(chains_of(rows, SIZE, SIZE).bound, 2, "affinity", seed=0)
    # Each of the two keeps one conversation: the system block is cold twice, the second turns are found whole.
    assert routed.curve.tokens_in(None) == 32
    assert routed.busiest_share == 0.5


@given(traffic(), st.sampled_from([1, 2, 3, 8]))
@settings(max_examples=60, deadline=None)
def test_other_block_sizes_are_replays_at_that_size(rows: list[TraceRow], size: int) -> None:
    curves = estimator(rows).curves_at(size)
    for pool in (1, 3, 7, None):
        assert curves.bound.tokens_in(pool) == LruReplay(size, pool).run(rows).hit_tokens
    rules = rules_of_version(DEFAULT_VERSION)
    direct = VllmReplay(VllmReplaySettings(rules, size, None)).run(rows)
    assert curves.engine.tokens_in(None) == direct.hit_tokens


@pytest.mark.parametrize(
    ("largest", "grid"), [(1, [1]), (7, [1, 2, 5, 7]), (10, [1, 2, 5, 10]), (60, [1, 2, 5, 10, 20, 50, 60])]
)
def test_the_grid_ends_where_the_ceiling_is_reached(largest: int, grid: list[int]) -> None:
    assert pool_grid(largest) == grid
