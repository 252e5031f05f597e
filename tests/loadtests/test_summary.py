"""Summaries: exact percentiles, ratio of sums, and a verdict that says why."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve_loadtests.arrivals import ArrivalKind, arrival_times
from hitcurve_loadtests.percentiles import describe, nearest_rank
from hitcurve_loadtests.records import RequestRecord
from hitcurve_loadtests.summary import RunTotals, client_hit_rate, is_hit, judge


def record(**values: Any) -> RequestRecord:
    good: dict[str, Any] = {
        "at_s": 0.0,
        "load": "l",
        "profile": "unique",
        "group": "g",
        "model": "m",
        "status": 200,
        "outcome": "ok",
        "reason": None,
        "ttft_s": 0.1,
        "tpot_s": 0.01,
        "duration_s": 0.2,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "cached_tokens": 0,
        "late_s": 0.0,
    }
    return RequestRecord(**{**good, **values})


def test_lt_10_percentiles_are_not_rounded() -> None:
    values = [ms / 1000 for ms in range(1100, 1000, -1)]
    seen = describe(values)
    assert (seen.count, seen.p50, seen.p90, seen.p99, seen.max) == (100, 1.050, 1.090, 1.099, 1.100)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_nearest_rank_is_the_smallest_value_that_enough_do_not_exceed(values: list[float], percent: int) -> None:
    chosen = nearest_rank(sorted(values), percent)
    assert 100 * sum(value <= chosen for value in values) >= percent * len(values)
    assert 100 * sum(value < chosen for value in values) < percent * len(values)


def test_nothing_measured_is_no_value() -> None:
    seen = describe([])
    assert (seen.count, seen.p50, seen.max) == (0, None, None)


def test_hit_rate_is_a_ratio_of_sums() -> None:
    rate = client_hit_rate(
        [record(prompt_tokens=1000, cached_tokens=0), record(prompt_tokens=10, cached_tokens=10)]
    )
    assert rate.hit_rate == pytest.approx(10 / 1010)
    assert client_hit_rate([record(cached_tokens=None)]).hit_rate is None


@pytest.mark.parametrize(("cached", "hit"), [(None, None), (0, False), (49, False), (50, True), (100, True)])
def test_a_hit_has_half_its_prompt_from_the_cache(cached: int | None, hit: bool | None) -> None:
    assert is_hit(record(cached_tokens=cached)) is hit


def test_results_keep_hits_misses_and_failures_apart() -> None:
    totals = RunTotals(sent=5)
    totals.add(record(ttft_s=0.1, cached_tokens=80))
    totals.add(record(ttft_s=0.5, cached_tokens=0))
    totals.add(record(ttft_s=0.7, cached_tokens=None))
    totals.add(record(outcome="failed", reason="HTTP 503", ttft_s=9.9, prompt_tokens=None, cached_tokens=None))
    results = totals.results(elapsed_s=2.0)
    assert results["requests"] == {"sent": 5, "ok": 3, "failed": 1, "unfinished": 1}
    assert results["failures"] == {"HTTP 503": 1}
    assert results["cache"] == {"hit_rate": 0.4, "query_tokens": 200, "hit_tokens": 80, "known": 2, "unknown": 2}
    assert {kind: values["max"] for kind, values in results["ttft_s"].items()} == {
        "all": 0.7,
        "hits": 0.1,
        "misses": 0.5,
    }
    assert results["throughput"] == {
        "requests_per_s": 1.5,
        "prompt_tokens_per_s": 150,
        "completion_tokens_per_s": 15,
    }


def judged(totals: RunTotals) -> tuple[str, list[str]]:
    return judge(totals.results(1.0), 0.1)


def test_verdicts() -> None:
    good = RunTotals(sent=1, records=[record()])
    assert judged(good) == ("ok", [])
    assert judged(RunTotals()) == ("no_data", ["no request finished"])
    failed = RunTotals(sent=2)
    failed.add(record())
    failed.add(record(outcome="failed", reason="HTTP 503"))
    assert judged(failed) == ("invalid", ["1 of 2 requests failed: HTTP 503 (1)"])
    blocked = RunTotals(sent=1, records=[record()], hub_lags_s=[0.25])
    assert judged(blocked) == (
        "invalid",
        ["the load generator lagged: its event loop was blocked by 0.250 s at p99, the limit is 0.1 s"],
    )
    late = RunTotals(sent=1, records=[record(late_s=3.0)])
    assert judged(late) == (
        "invalid",
        ["the load generator lagged: requests were sent late by 3.000 s at p99, the limit is 0.1 s"],
    )


@pytest.mark.parametrize("kind", ["poisson", "constant"])
def test_arrivals_come_at_the_rate_asked_for(kind: ArrivalKind) -> None:
    arrivals = arrival_times(20.0, kind, seed=4)
    times = [next(arrivals) for _ in range(4001)]
    assert times == sorted(times)
    assert times[0] == 0.0
    assert times[-1] == pytest.approx(200, rel=0.05)


def test_arrivals_of_a_seed_are_repeatable() -> None:
    one, again, other = (arrival_times(5.0, "poisson", seed) for seed in (1, 1, 2))
    first = [next(one) for _ in range(10)]
    assert first == [next(again) for _ in range(10)]
    assert first != [next(other) for _ in range(10)]
