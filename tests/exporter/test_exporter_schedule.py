"""When targets have their turn."""

from hypothesis import given
from hypothesis import strategies as st

from hitcurve_exporter.scraping.schedule import next_turn, place_in_interval


def test_first_turns_are_spread_over_the_interval() -> None:
    assert [place_in_interval(index, 4, 10.0) for index in range(4)] == [0.0, 2.5, 5.0, 7.5]


def test_a_turn_on_time_is_followed_by_the_next() -> None:
    assert next_turn(100.0, 10.0, 100.0, 100.5) == (110.0, 0)
    assert next_turn(100.0, 10.0, 110.0, 119.0) == (120.0, 0)


def test_turns_that_a_slow_scrape_covered_are_left_out() -> None:
    assert next_turn(100.0, 10.0, 100.0, 135.0) == (140.0, 3)


@given(
    first=st.floats(0, 1e6),
    interval=st.floats(0.1, 3600),
    turns=st.integers(0, 10_000),
    late=st.floats(0, 1e5),
)
def test_turns_stay_on_their_raster_and_never_lie_before_now(
    first: float, interval: float, turns: int, late: float
) -> None:
    last = first + turns * interval
    now = last + late
    following, missed = next_turn(first, interval, last, now)
    steps = (following - first) / interval
    assert abs(steps - round(steps)) < 1e-3
    assert round(steps) == turns + 1 + missed
    assert missed >= 0
    assert following >= now - interval * 1e-3 - 1e-6
    assert following <= max(last + interval, now + interval) + 1e-6
