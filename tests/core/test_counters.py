"""Restart-aware counters: rules one by one, and random lives of an engine against what it really served."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve import flags
from hitcurve.counters import Counter, CounterMap, LookupPair, LookupsAdded, hit_rate
from hitcurve.sample import LookupCounters

NEW, OLD = "vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"


def tokens(queries: float, hits: float, spelling: str = NEW) -> LookupCounters:
    return LookupCounters(queries, hits, spelling=spelling)


def blocks(queries: float, hits: float, size: int | None = 16) -> LookupCounters:
    return LookupCounters(queries, hits, unit="blocks", tokens_per_unit=size, spelling=OLD)


def added(
    *scrapes: tuple[LookupCounters, float | None], step_s: float = 15.0, from_s: float = 0.0
) -> LookupsAdded:
    """What the last of these scrapes added, (counters, start time) each."""
    pair = LookupPair()
    found = None
    for number, (lookups, start_time_s) in enumerate(scrapes):
        found = pair.add(lookups, start_time_s=start_time_s, at_s=from_s + number * step_s)
    assert found is not None
    return found


def test_the_first_scrape_adds_nothing() -> None:
    assert LookupPair().add(tokens(9, 3), start_time_s=None, at_s=0) is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (tokens(100, 50), tokens(150, 60), LookupsAdded(50, 10, 0.2)),
        (tokens(100, 50), tokens(100, 50), LookupsAdded(0, 0, None)),
        (tokens(100, 50), tokens(40, 10), LookupsAdded(40, 10, 0.25, restarts=1)),
        (
            tokens(100, 50),
            tokens(120, 30),
            LookupsAdded(120, 30, 0.25, restarts=1, flags=(flags.RESTART_IN_ONE_COUNTER,)),
        ),
        (tokens(0, 0), tokens(16, 20), LookupsAdded(16, 20, 1.0, flags=(flags.HITS_EXCEED_QUERIES,))),
        (tokens(5, 0), tokens(5, 20), LookupsAdded(0, 20, None, flags=(flags.HITS_EXCEED_QUERIES,))),
        (blocks(100, 40), blocks(180, 100), LookupsAdded(1280, 960, 0.75)),
        (blocks(100, 40, None), blocks(180, 100, None), LookupsAdded(None, None, 0.75)),
    ],
)
def test_without_start_times(before: LookupCounters, after: LookupCounters, expected: LookupsAdded) -> None:
    assert added((before, None), (after, None)) == expected


def test_a_restart_that_overtook_its_predecessor_is_told_by_the_start_time() -> None:
    assert added((tokens(100, 50), 10.0), (tokens(300, 60), 25.0)) == LookupsAdded(
        300, 60, 0.2, restarts=1, flags=(flags.START_TIME_CHANGED,)
    )


def test_a_start_time_printed_with_fewer_digits_is_the_same() -> None:
    assert added((tokens(100, 50), 1760000000.123), (tokens(200, 60), 1.76e9)) == LookupsAdded(100, 10, 0.1)


def test_a_process_much_older_than_the_last_scrape_is_no_restart_of_what_was_seen() -> None:
    now_s = 1.7e9
    found = added((tokens(100, 50), now_s - 5000), (tokens(9000, 60), now_s - 3000), from_s=now_s)
    assert found == LookupsAdded(
        None, None, None, restarts=1, comparable=False, flags=(flags.START_TIME_CHANGED, flags.UNSTABLE_TARGET)
    )


def test_processes_that_answer_in_turn_have_no_value_until_one_answers_alone_again() -> None:
    pair = LookupPair()
    seen = [(0, 1.0), (1, 2.0), (2, 1.0), *((3 + number, 2.0) for number in range(22))]
    found = [pair.add(tokens(100 * number, number), start_time_s=start, at_s=number) for number, start in seen]
    assert found[1] is not None
    assert found[1].restarts == 1
    assert all(one is not None and one.flags == (flags.UNSTABLE_TARGET,) for one in found[2:23])
    assert found[24] == LookupsAdded(100, 1, 0.01)
    assert pair.alternating_starts == {1.0, 2.0}


def test_known_alternating_processes_never_count_as_a_restart() -> None:
    pair = LookupPair(alternating_starts={1.0, 2.0})
    pair.add(tokens(10, 5), start_time_s=1.0, at_s=0)
    assert pair.add(tokens(5000, 5), start_time_s=2.0, at_s=15) == LookupsAdded(
        None, None, None, comparable=False, flags=(flags.UNSTABLE_TARGET,)
    )


@pytest.mark.parametrize(
    ("before", "after", "start_times", "expected"),
    [
        # It fell: certainly a restart.
        (blocks(5000, 4000), tokens(640, 320), (None, None), LookupsAdded(640, 320, 0.5, 1)),
        # Another process: a restart, whatever the values.
        (blocks(5, 4), tokens(640, 320), (10.0, 20.0), LookupsAdded(640, 320, 0.5, 1)),
        # The same process under another name: a plain difference.
        (tokens(100, 50, "vllm_a"), tokens(200, 60), (10.0, 10.0), LookupsAdded(100, 10, 0.1)),
        (blocks(10, 5), tokens(200, 90), (10.0, 10.0), LookupsAdded(None, None, None, comparable=False)),
        # Nothing tells: no value.
        (tokens(100, 50, OLD), tokens(200, 60), (None, None), LookupsAdded(None, None, None, 1, False)),
    ],
)
def test_a_change_of_spelling_or_unit(
    before: LookupCounters,
    after: LookupCounters,
    start_times: tuple[float | None, float | None],
    expected: LookupsAdded,
) -> None:
    found = added((before, start_times[0]), (after, start_times[1]))
    assert flags.SPELLING_CHANGED in found.flags
    assert (found.queries, found.hits, found.hit_rate) == (expected.queries, expected.hits, expected.hit_rate)
    assert (found.restarts, found.comparable) == (expected.restarts, expected.comparable)


def test_a_pair_that_counted_nothing_yet_goes_on_under_any_name() -> None:
    found = added((tokens(0, 0, OLD), None), (tokens(640, 320), None))
    assert found == LookupsAdded(640, 320, 0.5)


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[list[tuple[int, int]], bool]]:
    """Scrape intervals of an engine: requests of (queries, hits) served, and whether it restarted before them."""
    request = st.integers(1, 500).flatmap(lambda queries: st.tuples(st.just(queries), st.integers(0, queries)))
    return draw(st.lists(st.tuples(st.lists(request, max_size=4), st.booleans()), min_size=1, max_size=12))


@given(lives(), st.booleans())
def test_what_was_served_is_counted_or_flagged(
    life: list[tuple[list[tuple[int, int]], bool]], with_start_times: bool
) -> None:
    """With start times the counts are exact; without, a restart may hide, but never inflates or turns negative,
    and restarts that look like several processes in turn have no value."""
    pair = LookupPair()
    start, queries, hits = 0.0, 0, 0
    pair.add(tokens(0, 0), start_time_s=start if with_start_times else None, at_s=0)
    for number, (requests, restarted) in enumerate(life, 1):
        if restarted:
            start, queries, hits = start + 100.0, 0, 0
        served = sum(one[0] for one in requests), sum(one[1] for one in requests)
        queries, hits = queries + served[0], hits + served[1]
        found = pair.add(
            tokens(queries, hits), start_time_s=start if with_start_times else None, at_s=100.0 * number
        )
        assert found is not None
        if not with_start_times and found.flags == (flags.UNSTABLE_TARGET,):
            assert (found.queries, found.hits, found.hit_rate) == (None, None, None)
            continue
        assert found.queries is not None
        assert found.hits is not None
        assert found.hit_rate is None or 0 <= found.hit_rate <= 1
        if with_start_times or not restarted:
            assert (found.queries, found.hits) == served
            assert found.restarts == int(restarted)
        else:
            assert 0 <= found.queries <= served[0]
            assert 0 <= found.hits <= served[1]


def test_hit_rate_has_no_value_without_queries() -> None:
    assert hit_rate(0, 0) is None
    assert hit_rate(4, 1) == 0.25


def test_a_counter_restarts_when_told_or_when_it_falls() -> None:
    counter = Counter()
    steps = [
        (5, False),
        (7, False),
        (None, False),
        (9, False),
        (3, False),
        (8, True),
        (float("nan"), False),
        (9, False),
    ]
    assert [counter.add(value, restarted=restarted) for value, restarted in steps] == [
        None, 2, None, 2, 3, 8, None, 1
    ]  # fmt: skip
    counter.forget()
    assert counter.add(100, restarted=False) is None


def test_a_counter_map_keeps_names_apart() -> None:
    counters = CounterMap()
    assert counters.add({"a": 1, "b": None}, restarted=False) == {"a": None, "b": None}
    assert counters.add({"a": 4, "b": 2}, restarted=False) == {"a": 3, "b": None}
    assert counters.add({"a": 2, "b": 3}, restarted=True) == {"a": 2, "b": 3}
