"""Windows against naive ones that keep every request and every interval."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.windows import RequestWindow, TimeWindow

Update = tuple[int, int, int, bool]


@st.composite
def updates(draw: st.DrawFn) -> Update:
    requests = draw(st.integers(0, 40))
    queries = draw(st.integers(0, 5000)) if requests else 0
    return requests, queries, draw(st.integers(0, queries)), draw(st.sampled_from([False] * 9 + [True]))


def naive(seen: list[Update], most: int, *, one_pop: bool) -> tuple[int, int, int]:
    """Sums of the window from the whole history, dropping from a list copied anew at each step."""
    window: list[tuple[int, int, int]] = []
    for requests, queries, hits, reset in seen:
        if reset:
            window = []
        if one_pop:
            window = [*window, (requests, queries, hits)]
            if sum(one[0] for one in window) > most:
                window = window[1:]
        elif requests:
            window = [*window, (requests, queries, hits)]
            while sum(one[0] for one in window) > most and window[1:]:
                window = window[1:]
    return sum(one[0] for one in window), sum(one[1] for one in window), sum(one[2] for one in window)


@given(st.lists(updates(), max_size=60), st.integers(1, 100), st.booleans())
def test_request_window(sequence: list[Update], most: int, one_pop: bool) -> None:
    window = RequestWindow(most, one_pop=one_pop)
    for position, (requests, queries, hits, reset) in enumerate(sequence, 1):
        window.add(requests, queries, hits, reset=reset)
        expected = naive(sequence[:position], most, one_pop=one_pop)
        assert (window.requests, window.queries, window.hits) == expected
        assert window.hit_rate == (expected[2] / expected[1] if expected[1] else None)


def test_the_newest_update_stays_however_large() -> None:
    window = RequestWindow(10)
    window.add(5, 50, 50)
    window.add(25, 250, 0)
    assert (window.requests, window.queries, window.hits) == (25, 250, 0)


def test_the_old_window_pops_once_per_update_and_lets_empty_updates_push() -> None:
    window = RequestWindow(10, one_pop=True)
    for _ in range(10):
        window.add(1, 10, 5)
    window.add(5, 50, 0)
    assert (window.requests, window.queries, window.hits) == (14, 140, 45)
    window.add(0, 0, 0)
    assert (window.requests, window.queries, window.hits) == (13, 130, 40)
    assert window.hit_rate == 40 / 130


def test_a_reset_empties_the_window_before_its_own_update() -> None:
    window = RequestWindow(1000)
    window.add(10, 100, 90)
    window.add(1, 10, 0, reset=True)
    assert (window.requests, window.hit_rate) == (1, 0.0)
    window.add(0, 0, 0, reset=True)
    assert (window.requests, window.hit_rate) == (0, None)


def test_lag_is_as_long_as_the_window_needs_requests() -> None:
    """At N = 1000, the rate of an all-hit stream that turns all-miss falls linearly over 1000 requests."""
    window = RequestWindow(1000)
    for _ in range(1000):
        window.add(1, 10, 10)
    rates = []
    for _ in range(1000):
        window.add(1, 10, 0)
        rates.append(window.hit_rate)
    assert rates == pytest.approx([1 - done / 1000 for done in range(1, 1001)])


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 1000), st.integers(0, 1000)), max_size=60),
    st.integers(1, 200),
)
def test_time_window(steps: list[tuple[int, int, int]], span_s: int) -> None:
    window, now_s, kept = TimeWindow(span_s), 0, []
    for step_s, queries, hits in steps:
        now_s += step_s
        window.add(now_s, queries, hits)
        kept.append((now_s, queries, hits))
        window.advance(now_s)
        inside = [one for one in kept if now_s - span_s < one[0]]
        expected = sum(one[1] for one in inside), sum(one[2] for one in inside)
        assert (window.queries, window.hits) == expected
        assert window.hit_rate == (min(expected[1] / expected[0], 1.0) if expected[0] else None)


def test_an_interval_leaves_a_time_window_at_its_edge_despite_decimal_fractions() -> None:
    window = TimeWindow(0.3)
    window.add(0.1, 100, 0)
    window.add(0.1 + 0.2, 10, 10)
    window.advance(0.1 + 0.3)
    assert (window.queries, window.hit_rate) == (10, 1.0)


def test_windows_without_length_are_refused() -> None:
    with pytest.raises(ValueError, match="max_requests must be at least 1, not 0"):
        RequestWindow(0)
    with pytest.raises(ValueError, match="a window must be longer than 0 s, not 0"):
        TimeWindow(0)
    with pytest.raises(ValueError, match="longer than 0 s, not nan"):
        TimeWindow(float("nan"))


@given(st.lists(st.tuples(st.integers(1, 30), st.floats(0, 1e12), st.floats(0, 1e12)), max_size=60))
def test_sums_of_fractions_never_fall_below_zero(steps: list[tuple[int, float, float]]) -> None:
    window, requests, now_s = TimeWindow(40), RequestWindow(5), 0
    for step_s, queries, hits in steps:
        now_s += step_s
        window.add(now_s, queries, hits)
        window.advance(now_s)
        requests.add(2, queries, hits)
        assert window.queries >= 0
        assert window.hits >= 0
        assert requests.queries >= 0
        assert requests.hits >= 0
    window.advance(now_s + 40)
    assert (window.queries, window.hits, window.hit_rate) == (0, 0, None)


def test_a_long_window_holds_what_it_should_after_many_intervals() -> None:
    window = TimeWindow(3600)
    for scrape in range(5000):
        window.add(15.0 * scrape, scrape, 1)
        window.advance(15.0 * scrape)
    assert (window.queries, window.hits) == (sum(range(5000 - 240, 5000)), 240)
