"""Several processes behind one address, told by their counters alone, against one process that restarts."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve import flags
from hitcurve.counters import UNTOLD_START, LookupPair
from hitcurve.sample import LookupCounters
from hitcurve.turn_taking import TurnTaking

Pair = tuple[int, int]


def seen_at(*pairs: Pair) -> list[int]:
    """The scrapes, from 0, at which turns are seen."""
    turns = TurnTaking()
    lookups = [LookupCounters(*pair) for pair in pairs]
    return [number for number, two in enumerate(itertools.pairwise(lookups), 1) if turns.observe(*two)]


@pytest.mark.parametrize(
    ("pairs", "seen"),
    [
        pytest.param([(1000, 900), (50, 5), (1100, 990), (60, 6), (1200, 999)], [3, 4], id="two in turn"),
        pytest.param([(1000, 900), (50, 5)] * 3, [3, 4, 5], id="two that are idle"),
        pytest.param(
            [(1000, 500), (990, 480), (1100, 550), (1080, 520), (1200, 600), (1170, 560)], [5], id="alike"
        ),
        pytest.param(
            [(1000, 900), (50, 5), (5000, 100), (1100, 990), (60, 6), (5100, 110), (1200, 999)],
            [5, 6],
            id="three in turn, of which one is never seen to fall",
        ),
        pytest.param([(1000, 900), (100, 90), (200, 180), (300, 270), (1100, 950)], [], id="a single leap"),
        pytest.param(
            [(300, 90), (100, 30), (200, 60), (300, 90), (100, 30), (200, 60), (300, 90)], [], id="lives of three"
        ),
        pytest.param([(100, 30), (900, 60), (1000, 90)], [], id="traffic that grows"),
        pytest.param([(50, 25), (10, 5), (400, 200), (150, 75)], [], id="restarts that go on far above"),
        pytest.param(
            [(1000, 500), (10, 5), (300, 150), (1100, 550), (310, 155)], [], id="a leap after one that is alike"
        ),
        pytest.param(
            [(1000, 900), (100, 90), (1100, 990), (5, 1), (1050, 900)], [], id="a place is gone on from once"
        ),
    ],
)
def test_turns_are_seen_at_the_second_page_that_goes_on(pairs: list[Pair], seen: list[int]) -> None:
    assert seen_at(*pairs) == seen


def test_two_leaps_that_lie_far_apart_are_two_restarts() -> None:
    leap, climb = [(100, 50), (1100, 550)], [(1100 + number, 550) for number in range(1, 25)]
    assert seen_at((1000, 500), *leap, *climb, (50, 25), (1200, 600)) == []
    assert seen_at((1000, 500), *leap, *climb[:5], (50, 25), (1200, 600)) == [9]


@given(st.lists(st.integers(3, 30), min_size=2, max_size=8), st.integers(1, 500))
def test_an_engine_that_restarts_and_climbs_by_equal_steps_never_takes_turns(lives: list[int], step: int) -> None:
    pairs = [(step * scrape, step * scrape // 2) for life in lives for scrape in range(1, life + 1)]
    assert seen_at(*pairs) == []


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=4, unique=True).map(lambda found: [8**n for n in found]),
    st.integers(1, 3),
)
def test_processes_of_different_size_that_answer_one_after_the_other_are_told(
    starts: list[int], each: int
) -> None:
    """In the third round at the latest, however often each answers before the next one does."""
    rounds = [
        (start * (100 + count), start * (50 + count))
        for number in range(6)
        for start in starts
        for count in range(each * number, each * (number + 1))
    ]
    assert seen_at(*rounds)


def test_turns_without_start_times_have_no_value_and_no_restart() -> None:
    counters = [(1000, 900), (50, 5), (1100, 990), (60, 6), (1200, 999)]
    told = LookupPair()
    found = [
        told.add(LookupCounters(*pair), start_time_s=None, at_s=number) for number, pair in enumerate(counters)
    ]
    assert [one and one.flags for one in found[3:]] == [(flags.UNSTABLE_TARGET,), (flags.UNSTABLE_TARGET,)]
    assert told.alternating_starts == {UNTOLD_START}
    known = LookupPair(alternating_starts={UNTOLD_START})
    known.add(LookupCounters(1000, 900), start_time_s=None, at_s=0)
    first = known.add(LookupCounters(50, 5), start_time_s=None, at_s=1)
    assert first is not None
    assert (first.queries, first.restarts, first.flags) == (None, 0, (flags.UNSTABLE_TARGET,))
