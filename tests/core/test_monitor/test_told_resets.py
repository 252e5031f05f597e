"""Every reset counts once, whoever tells it first: a mark, an event, or the counter a scrape before or after."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve.monitor.told_resets import ToldResets
from hitcurve.reading import Cut

Step = tuple[float, tuple[float, ...], int]
"""Time of a scrape, of the marks since the one before, and what its counter grew by."""


def told(*steps: Step) -> tuple[list[float], int]:
    """Times of the cuts, and the resets counted."""
    resets, cuts, number = ToldResets(), [], 0
    for at_s, marks, counted in steps:
        new, more = resets.take([Cut(mark, "reset") for mark in marks], counted, at_s)
        cuts += [cut.at_s for cut in new]
        number += more
    return cuts, number


@pytest.mark.parametrize(
    ("steps", "cuts", "number"),
    [
        ([(15.0, (7.0,), 1)], [7.0], 1),
        ([(15.0, (14.9,), 0), (30.0, (), 1)], [14.9], 1),
        ([(15.0, (), 1), (30.0, (15.2,), 0)], [15.0], 1),
        ([(0.5, (0.4,), 0), (1.0, (), 0), (1.5, (), 1), (2.0, (), 0)], [0.4], 1),
        ([(15.0, (14.9, 14.9), 0), (30.0, (15.1,), 0)], [14.9], 1),
        ([(15.0, (), 2)], [15.0], 2),
        ([(15.0, (7.0,), 3)], [7.0], 3),
        ([(15.0, (3.0, 12.0), 0), (30.0, (), 0)], [3.0, 12.0], 2),
        ([(5.0, (0.4,), 0), (10.0, (), 0), (15.0, (), 1)], [0.4], 1),
        ([(15.0, (12.0, 3.0), 0), (30.0, (16.0,), 0)], [12.0, 3.0], 2),
        ([(20.0, (3.0,), 0), (40.0, (), 1)], [3.0, 40.0], 2),
        ([(15.0, (), 1), (30.0, (), 1)], [15.0, 30.0], 2),
    ],
    ids=[
        "in one scrape",
        "counter a scrape late",
        "counter first",
        "counter two quick scrapes late",
        "three ranks",
        "counter alone",
        "more than were marked",
        "marks alone",
        "counter that is kept from a core",
        "marks in no order",
        "counter too late to be the same",
        "two resets",
    ],
)
def test_reports_of_one_reset_are_one(steps: list[Step], cuts: list[float], number: int) -> None:
    assert told(*steps) == (cuts, number)


@settings(deadline=None)
@given(
    gaps=st.lists(st.floats(7.0, 60.0), min_size=1, max_size=8),
    delays=st.lists(st.tuples(st.floats(0.0, 0.3), st.floats(0.0, 1.2)), min_size=8, max_size=8),
    scrape_s=st.floats(0.5, 40.0),
    marked=st.booleans(),
)
def test_the_counter_and_marks_of_all_resets_count_each_once(
    gaps: list[float], delays: list[tuple[float, float]], scrape_s: float, marked: bool
) -> None:
    resets = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    scrapes = [n * scrape_s for n in range(int((resets[-1] + 5.0) / scrape_s) + 2)]
    marks = [at_s + mark_s for at_s, (mark_s, _) in zip(resets, delays, strict=False)] if marked else []
    counts = [at_s + counter_s for at_s, (_, counter_s) in zip(resets, delays, strict=False)]
    steps: list[Step] = [
        (
            to_s,
            tuple(at_s for at_s in marks if from_s < at_s <= to_s),
            sum(from_s < at_s <= to_s for at_s in counts),
        )
        for from_s, to_s in pairwise(scrapes)
    ]
    cuts, number = told(*steps)
    assert number == len(resets)
    if marked:
        assert len(cuts) == len(resets)
