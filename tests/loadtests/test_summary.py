"""Summaries: exact percentiles, ratio of sums, and a verdict that says why."""

import itertools
import json
import math
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve_loadtests.arrivals import ArrivalKind, arrival_times
from hitcurve_loadtests.percentiles import Histogram, describe, nearest_rank
from hitcurve_loadtests.records import RequestRecord
from hitcurve_loadtests.summary import RunTotals, client_hit_rate, is_hit, judge
from hitcurve_loadtests.warming import WarmingCurve


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
        "since_scheduled": 0.7,
    }
    assert results["throughput"] == {
        "requests_per_s": 1.5,
        "prompt_tokens_per_s": 150,
        "completion_tokens_per_s": 15,
    }


def judged(totals: RunTotals) -> tuple[str, list[str]]:
    return judge(totals.results(1.0), 0.1)


def test_more_cached_tokens_than_the_prompt_had_are_no_hit_rate() -> None:
    totals = RunTotals(sent=3)
    for cached in (100, 101, 0):
        totals.add(record(cached_tokens=cached))
    results = totals.results(1.0)
    assert results["cache"] == {"hit_rate": 0.5, "query_tokens": 200, "hit_tokens": 100, "known": 2, "unknown": 1}
    assert results["warming"] == [{"requests": 2, "hit_rate": 0.5}]
    assert [results["ttft_s"][kind]["count"] for kind in ("all", "hits", "misses")] == [3, 1, 1]
    assert judged(totals) == (
        "invalid",
        [
            "1 of 3 requests told more cached tokens than their prompt had; the engine, or a gateway before it, "
            "counts them wrongly"
        ],
    )
    added = RunTotals()
    for _ in range(2):
        added.merge(totals.as_json())
    assert added.results(1.0)["impossible_hits"] == 2


def test_verdicts() -> None:
    good = RunTotals(sent=1)
    good.add(record())
    assert judged(good) == ("ok", [])
    assert judged(RunTotals()) == ("no_data", ["no request finished"])
    failed = RunTotals(sent=2)
    failed.add(record())
    failed.add(record(outcome="failed", reason="HTTP 503"))
    assert judged(failed) == ("invalid", ["1 of 2 requests failed: HTTP 503 (1)"])
    blocked = RunTotals(sent=1)
    blocked.add(record())
    blocked.hub_lagged(0.25)
    assert judged(blocked) == (
        "invalid",
        ["the load generator lagged: its event loop was blocked by 0.250 s at p99, the limit is 0.1 s"],
    )
    late = RunTotals(sent=1)
    late.add(record(late_s=3.0))
    assert judged(late) == (
        "invalid",
        ["the load generator lagged: requests were sent late by 3.000 s at p99, the limit is 0.1 s"],
    )


@pytest.mark.parametrize("kind", ["poisson", "constant", "bursty", "diurnal"])
def test_arrivals_come_at_the_rate_asked_for(kind: ArrivalKind) -> None:
    arrivals = arrival_times(20.0, kind, seed=4, day_s=100.0)
    times = [next(arrivals) for _ in range(20001)]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(1000, rel=0.05)


def test_bursts_come_at_once_and_days_swing() -> None:
    bursts = list(itertools.islice(arrival_times(20.0, "bursty", seed=1), 8000))
    assert len(set(bursts)) == pytest.approx(1000, rel=0.1)
    hundred_days = itertools.takewhile(lambda at_s: at_s < 1000, arrival_times(20.0, "diurnal", seed=1, day_s=10))
    quarters = Counter(int(at_s % 10 // 2.5) for at_s in hundred_days)
    # The mean of a half wave is 2/pi of its height.
    rising, falling = (5000 * (1 + sign * 0.8 * 2 / math.pi) for sign in (1, -1))
    assert [quarters[quarter] for quarter in range(4)] == pytest.approx(
        [rising, rising, falling, falling], rel=0.1
    )


@given(st.lists(st.floats(1e-6, 1e4), min_size=1), st.integers(0, 100))
def test_histograms_of_workers_add_up_exactly(values: list[float], cut: int) -> None:
    whole, one, other = Histogram(), Histogram(), Histogram()
    for number, value in enumerate(values):
        whole.add(value)
        (one if number < cut else other).add(value)
    one.merge(Histogram.from_json(json.loads(json.dumps(other.as_json()))))
    assert one.as_json() == whole.as_json()
    exact, seen = describe(values), whole.describe()
    assert (seen.count, seen.max) == (exact.count, exact.max)
    for name in ("p50", "p90", "p99"):
        assert getattr(seen, name) == pytest.approx(getattr(exact, name), rel=5.1e-4)


def test_lt_10_a_histogram_has_the_same_percentiles() -> None:
    histogram = Histogram()
    for ms in range(1001, 1101):
        histogram.add(ms / 1000)
    seen = histogram.describe()
    assert (seen.p50, seen.p90, seen.p99, seen.max) == (1.050, 1.090, 1.099, 1.100)


def test_totals_of_workers_add_up() -> None:
    whole, parts = RunTotals(sent=40), [RunTotals(sent=20), RunTotals(sent=20)]
    for number in range(40):
        failed = {"outcome": "failed", "reason": f"HTTP {500 + number % 3}"} if number % 7 == 0 else {}
        seen = record(ttft_s=0.01 * number, cached_tokens=number if number % 5 else None, **failed)
        for totals in (whole, parts[number % 2]):
            totals.add(seen, f"http://{number % 3}")
            totals.hub_lagged(0.001 * number)
            totals.length_seen(100, 101)
    merged = RunTotals()
    for part in parts:
        merged.merge(json.loads(json.dumps(part.as_json())))
    apart = ("warming",)
    assert {k: v for k, v in merged.as_json().items() if k not in apart} == {
        k: v for k, v in whole.as_json().items() if k not in apart
    }
    assert merged.prompt_tokens_off() == 1.0
    assert {k: v for k, v in merged.results(2.0).items() if k not in apart} == {
        k: v for k, v in whole.results(2.0).items() if k not in apart
    }


def test_the_first_requests_are_left_out_of_the_warm_rate_and_the_curve_shows_them() -> None:
    totals = RunTotals(warm_up=2)
    for cached in (0, 0, 90, 90):
        totals.add(record(cached_tokens=cached))
    results = totals.results(1.0)
    assert (results["cache"]["hit_rate"], results["warm"]["hit_rate"]) == (0.45, 0.9)
    assert results["warming"] == [{"requests": 4, "hit_rate": 0.45}]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), max_size=3000))
def test_the_warming_curve_loses_nothing_and_stays_short(requests: list[tuple[int, int]]) -> None:
    curve = WarmingCurve(per_slice=2)
    for number, (prompt, cached) in enumerate(requests):
        curve.add(prompt, cached, float(number))
    assert len(curve.slices) <= 40
    assert sum(requests for requests, _, _, _ in curve.sums()) == len(requests)
    assert sum(cached for _, _, cached, _ in curve.sums()) == sum(cached for _, cached in requests)


@given(st.lists(st.lists(st.integers(0, 50), max_size=500), min_size=1, max_size=4), st.randoms())
def test_curves_of_workers_become_one_in_order_of_time(workers: list[list[int]], source: Random) -> None:
    curves = [WarmingCurve(per_slice=2) for _ in workers]
    for curve, hits in zip(curves, workers, strict=True):
        ended_s = source.uniform(0, 10)
        for cached in hits:
            ended_s += source.uniform(0, 1)
            curve.add(50, cached, ended_s)
    whole = WarmingCurve(per_slice=2)
    for curve in curves:
        whole.merge(json.loads(json.dumps(curve.sums())))
    sums = whole.sums()
    assert len(sums) <= 40
    assert [ended_s for *_, ended_s in sums] == sorted(ended_s for *_, ended_s in sums)
    assert sum(requests for requests, _, _, _ in sums) == sum(map(len, workers))
    assert sum(cached for _, _, cached, _ in sums) == sum(map(sum, workers))


def test_two_workers_warm_together_in_the_merged_curve() -> None:
    early, late, whole = WarmingCurve(), WarmingCurve(), WarmingCurve()
    for number in range(10):
        early.add(100, 0, float(number))
        late.add(100, 90, 100.0 + number)
    whole.merge(late.sums())
    whole.merge(early.sums())
    assert whole.as_json() == [{"requests": 10, "hit_rate": 0.0}, {"requests": 10, "hit_rate": 0.9}]


def test_memory_does_not_grow_with_the_number_of_reasons() -> None:
    totals = RunTotals()
    for number in range(200):
        totals.add(record(outcome="failed", reason=f"reason {number}"))
    assert len(totals.failures) == 51
    assert totals.failures["other reasons"] == 150


def test_arrivals_of_a_seed_are_repeatable() -> None:
    one, again, other = (arrival_times(5.0, "poisson", seed) for seed in (1, 1, 2))
    first = [next(one) for _ in range(10)]
    assert first == [next(again) for _ in range(10)]
    assert first != [next(other) for _ in range(10)]
