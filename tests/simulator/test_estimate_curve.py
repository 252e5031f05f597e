"""The one-pass curve against direct replays at every size: the LRU list, vLLM's rules, and counting by hand."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve_simulator.estimate.chains import chains_of
from hitcurve_simulator.estimate.dominance import smaller_before
from hitcurve_simulator.estimate.hit_curve import HitCurve, hit_curve, hit_curve_of
from hitcurve_simulator.estimate.prefix_hashes import prefix_hashes
from hitcurve_simulator.estimate.reuse import reuse_of
from hitcurve_simulator.simulate.lru_replay import LruReplay
from hitcurve_simulator.simulate.result import SimulationResult
from hitcurve_simulator.simulate.vllm_replay import VllmReplay, VllmReplaySettings
from hitcurve_simulator.traces import TraceRow, read_trace
from hitcurve_simulator.vllm import DEFAULT_VERSION, InterningHasher, Request, rules_of_version

SIZE = 4
LETTERS = st.integers(0, 2)


def token_row(line: int, tokens: list[int], adapter: str | None = None, salt: str | None = None) -> TraceRow:
    request = Request(f"line {line}", prompt_token_ids=tokens, adapter=adapter, cache_salt=salt)
    return TraceRow(line, request)


def id_row(line: int, ids: list[object], length: int, adapter: str | None = None) -> TraceRow:
    request = Request(
        f"line {line}", block_contents=tuple(ids[: length // SIZE]), prompt_length=length, adapter=adapter
    )
    return TraceRow(line, request, block_ids=ids)


@st.composite
def traffic(draw: st.DrawFn) -> list[TraceRow]:
    """Prompts over three letters that branch and repeat, as tokens or as ids, some in another namespace."""
    rows = []
    for line in range(1, draw(st.integers(1, 14)) + 1):
        adapter = draw(st.sampled_from([None, None, "a"]))
        if draw(st.booleans()):
            salt = draw(st.sampled_from([None, "s"]))
            letters = draw(st.lists(LETTERS, min_size=1, max_size=6))
            rest = draw(st.integers(1, SIZE))
            rows.append(token_row(line, [x for x in letters for _ in range(SIZE)][:-rest] or [0], adapter, salt))
        else:
            ids: list[object] = list(draw(st.lists(st.one_of(LETTERS, st.sampled_from("xy")), max_size=6)))
            length = max(len(ids) * SIZE + draw(st.integers(-SIZE + 1, 2 * SIZE)), 1)
            rows.append(id_row(line, ids, length, adapter))
    return rows


def lru(rows: Sequence[TraceRow], pool: int | None) -> SimulationResult:
    return LruReplay(SIZE, pool).run(rows)


def vllm(rows: Sequence[TraceRow], pool: int | None, outputs: bool = False) -> SimulationResult:
    rules = rules_of_version(DEFAULT_VERSION)
    return VllmReplay(VllmReplaySettings(rules, SIZE, pool, outputs=outputs)).run(rows)


def blocks_at(curve: HitCurve, pool: int) -> int:
    return int(curve.hit_blocks(np.array([pool]))[0])


@given(traffic())
@settings(max_examples=150, deadline=None)
def test_the_bound_equals_a_direct_lru_at_every_size(rows: list[TraceRow]) -> None:
    accesses = chains_of(rows, SIZE, SIZE).bound
    curve = hit_curve_of(accesses)
    for pool in [*range(1, accesses.blocks + 2), None]:
        direct = lru(rows, pool)
        assert curve.tokens_in(pool) == direct.hit_tokens, pool
        assert blocks_at(curve, pool or curve.largest_pool) == direct.details["hit_blocks"], pool
    assert (curve.query_tokens, curve.query_blocks) == (direct.query_tokens, direct.details["query_blocks"])


@given(traffic())
@settings(max_examples=100, deadline=None)
def test_without_a_limit_the_engine_like_ceiling_is_what_vllm_rules_reach(rows: list[TraceRow]) -> None:
    curve = hit_curve_of(chains_of(rows, SIZE, SIZE).engine)
    direct = vllm(rows, None)
    assert (curve.tokens_in(None), curve.query_tokens) == (direct.hit_tokens, direct.query_tokens)


@given(st.lists(st.lists(LETTERS, min_size=1, max_size=5), min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_the_engine_like_curve_is_vllm_at_every_size_where_no_prompt_is_aligned(prompts: list[list[int]]) -> None:
    ids: list[list[object]] = [[*letters, f"tail {line}"] for line, letters in enumerate(prompts)]
    rows = [id_row(line, row, len(row) * SIZE - 1) for line, row in enumerate(ids, 1)]
    curve = hit_curve_of(chains_of(rows, SIZE, SIZE).engine)
    for pool in range(max(map(len, prompts)), sum(map(len, prompts)) + 1):
        assert curve.tokens_in(pool) == vllm(rows, pool).hit_tokens, pool


def test_outputs_stay_behind_as_vllm_keeps_them(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(
        '{"chat_id": 1, "parent_chat_id": -1, "input_length": 5, "output_length": 8, "hash_ids": [1, 2]}\n'
        '{"chat_id": 2, "parent_chat_id": 1, "input_length": 15, "hash_ids": [1, 20, 21, 22]}\n'
    )
    rows = read_trace(file, SIZE).rows
    curve = hit_curve_of(chains_of(rows, SIZE, SIZE, outputs=True).engine)
    for pool in range(4, 8):
        assert curve.tokens_in(pool) == vllm(rows, pool, outputs=True).hit_tokens == 12
    assert hit_curve_of(chains_of(rows, SIZE, SIZE).engine).tokens_in(None) == 4


def test_a_request_that_may_not_read_still_writes() -> None:
    quiet = Request("quiet", block_contents=(1, 2), prompt_length=8, skip_reading_prefix_cache=True)
    rows = [TraceRow(1, quiet, block_ids=[1, 2]), id_row(2, [1, 2, 3], 12), TraceRow(3, quiet, block_ids=[1, 2])]
    curve = hit_curve_of(chains_of(rows, SIZE, SIZE).engine)
    assert (curve.query_tokens, curve.query_blocks, curve.tokens_in(None)) == (12, 3, 8)


@given(traffic())
@settings(max_examples=50, deadline=None)
def test_curves_of_groups_add_up_and_rise(rows: list[TraceRow]) -> None:
    chains = chains_of(rows, SIZE, SIZE)
    reuse = reuse_of(chains.bound)
    whole = hit_curve(chains.bound, reuse)
    groups = [
        hit_curve(chains.bound, reuse, chains.namespace_of == place) for place in range(len(chains.namespaces))
    ]
    pools = np.arange(1, whole.largest_pool + 2)
    assert (sum(group.hit_tokens(pools) for group in groups) == whole.hit_tokens(pools)).all()
    assert (np.diff(whole.hit_tokens(pools)) >= 0).all()
    assert sum(group.query_tokens for group in groups) == whole.query_tokens


@given(traffic())
@settings(max_examples=50, deadline=None)
def test_the_curve_is_straight_between_its_knots_and_pool_for_is_the_smallest(rows: list[TraceRow]) -> None:
    curve = hit_curve_of(chains_of(rows, SIZE, SIZE).bound)
    pools = np.arange(1, curve.largest_pool + 2)
    knots = np.unique([1, *curve.knots(), curve.largest_pool + 1])
    assert np.allclose(np.interp(pools, knots, curve.hit_tokens(knots)), curve.hit_tokens(pools))
    wanted = curve.pool_for(0.7)
    if wanted is None:
        assert curve.tokens_in(None) == 0
    else:
        enough = [int(pool) for pool in pools if curve.tokens_in(int(pool)) >= 0.7 * curve.tokens_in(None)]
        assert wanted == min(enough)


@given(st.permutations(range(12)), st.lists(st.integers(1, 5), min_size=12, max_size=12))
def test_smaller_before_counts_what_a_double_loop_counts(values: list[int], weights: list[int]) -> None:
    expected = [
        sum(weights[left] for left in range(here) if values[left] < values[here]) for here in range(len(values))
    ]
    assert smaller_before(np.array(values), np.array(weights)).tolist() == expected


def test_smaller_before_of_nothing_is_nothing() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert smaller_before(empty, empty).tolist() == []


@given(st.lists(st.lists(st.integers(-2, 2), max_size=5), min_size=1, max_size=8))
def test_prefix_names_tell_apart_what_interning_tells_apart(prompts: list[list[int]]) -> None:
    starts = np.cumsum([0, *map(len, prompts)])
    names = prefix_hashes(np.array([item for prompt in prompts for item in prompt], dtype=np.int64), starts)
    hasher = InterningHasher()
    exact = [key for prompt in prompts for key in hasher.chain(None, prompt)]
    pairs = set(zip(names.tolist(), exact, strict=True))
    assert len(pairs) == len(set(exact)) == len(set(names.tolist()))


@pytest.mark.parametrize("size", [1, 3, 4, 8])
def test_block_size_of_ids_may_be_a_multiple(size: int) -> None:
    ids: list[list[object]] = [[1, 2, 3, 4, 5], [1, 2, 3, 9], [1, 2, 3, 4, 5], [1, 7]]
    rows = [id_row(line, row, len(row) * SIZE - 1) for line, row in enumerate(ids, 1)]
    coarse = [
        token_row(line, [int(str(x)) * 10 + at for x in row for at in range(SIZE)][:-1])
        for line, row in enumerate(ids, 1)
    ]
    for kind in ("bound", "engine"):
        curve = hit_curve_of(getattr(chains_of(rows, SIZE * size, SIZE), kind))
        same = hit_curve_of(getattr(chains_of(coarse, SIZE * size, SIZE), kind))
        for pool in (1, 2, 3, None):
            assert curve.tokens_in(pool) == same.tokens_in(pool)


def test_salts_keep_ids_apart_wherever_the_rows_stand() -> None:
    rows = [id_row(1, [1, 2], 8), token_row(2, [7]), id_row(3, [1, 2], 8), id_row(4, [1, 2], 8), id_row(5, [1], 4)]
    bound = chains_of(rows, SIZE, SIZE, salts=[0, 0, 0, 3, 3]).bound
    names = [bound.names[start:end].tolist() for start, end in pairwise(bound.starts)]
    assert names[0] == names[2]
    assert names[3][0] == names[4][0]
    assert len({names[0][0], names[0][1], names[3][0], names[3][1], names[1][0]}) == 5


@given(st.lists(st.lists(LETTERS, min_size=1, max_size=5), min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_with_tokens_the_partial_block_takes_one_place_of_vllms_pool(prompts: list[list[int]]) -> None:
    rows = [
        token_row(line, [letter for letter in letters for _ in range(SIZE)] + [90 + line])
        for line, letters in enumerate(prompts, 1)
    ]
    curve = hit_curve_of(chains_of(rows, SIZE, SIZE).engine)
    for pool in range(max(map(len, prompts)), sum(map(len, prompts)) + 1):
        assert curve.tokens_in(pool) == vllm(rows, pool + 1).hit_tokens, pool
