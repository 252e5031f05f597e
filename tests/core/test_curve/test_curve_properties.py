"""What holds for every curve: nothing unhealthy on stationary traffic, collapses named in time, sane states."""

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve.curve import CurveClassifier
from hitcurve.reading import CAUSES, STATES, UNHEALTHY_STATES, CurveState, Cut, Interval
from hitcurve.sample import AdapterActivity, EngineSample

DAY_S = 86_400.0
EVIDENCE = {
    "rate",
    "uncertainty",
    "baseline",
    "tokens",
    "requests",
    "scrape_rate",
    "scrape_tokens",
    "onset_s",
    "score",
    "threshold",
    "request_noise",
    "scatter",
    "turns",
    "silence_s",
    "waiting",
    "miss_reason",
}


def test_stationary_traffic_is_never_unhealthy_over_many_seeds(bench: Any) -> None:
    """60 replicas, 0.05 to 500 requests a second, scraped every 1 to 60 s, for 3 days in all: not one alarm."""
    alarms, days = [], 0.0
    for seed in range(60):
        rng = random.Random(seed)
        qps, scrape_s = 10 ** rng.uniform(-1.3, 2.7), rng.choice([1.0, 5.0, 15.0, 30.0, 60.0])
        level = rng.uniform(0.3, 0.95)
        traffic = bench.traffic(
            rate=lambda _, level=level: level,
            qps=lambda _, qps=qps: qps,
            seconds=scrape_s * min(400.0, 20_000.0 / (qps * scrape_s) + 120.0),
            scrape_s=scrape_s,
            share=rng.choice([1.0, level]),
            spread=rng.choice([0.3, 0.8, 1.2]),
            batch=rng.choice([1, 1, 3]),
            counted=rng.random() < 0.6,
        )
        run = bench.watch(traffic, seed)
        days += traffic.seconds / DAY_S
        alarms += [(seed, state) for state in run.states if state.state in UNHEALTHY_STATES]
    assert alarms == []
    assert days > 3.0


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    requests=st.integers(5, 60),
    level=st.floats(0.9, 0.97),
    scrape_s=st.sampled_from([1.0, 15.0, 60.0]),
    counted=st.booleans(),
)
def test_a_collapse_is_named_within_two_scrapes(
    seed: int, requests: int, level: float, scrape_s: float, counted: bool
) -> None:
    """From 5 counted or 10 uncounted requests a scrape that hit or miss as a whole, from a level of 0.9 on; the
    first of the two scrapes is the first without any hit."""
    requests = max(requests, 5 if counted else 10)
    classifier, rng = CurveClassifier(), random.Random(seed)
    states = []
    for index in range(202):
        hits = 0 if index >= 200 else sum(rng.random() < level for _ in range(requests))
        interval = Interval(
            index * scrape_s,
            (index + 1) * scrape_s,
            800.0 * requests,
            800.0 * hits,
            hits / requests,
            requests=float(requests) if counted else None,
        )
        states.append(classifier.observe(interval, EngineSample("0", 0.0, 0.0), (index + 1) * scrape_s).state)
    assert states[199] == "steady"
    assert states[201] == "collapsed"


volumes = st.one_of(st.just(0.0), st.floats(1.0, 1e9))


@st.composite
def scrapes(draw: st.DrawFn) -> list[tuple[Interval | None, EngineSample | None, float, tuple[Cut, ...]]]:
    """Anything a page can turn into, in order of time."""
    rows, at_s = [], 0.0
    for _ in range(draw(st.integers(1, 40))):
        from_s, at_s = at_s, at_s + draw(st.sampled_from([1.0, 15.0, 60.0, 4000.0, 1e7]))
        if draw(st.integers(0, 9)) == 0:
            rows.append((None, None, at_s, ()))
            continue
        queries, hits = draw(volumes), draw(volumes)
        known = draw(st.integers(0, 9)) > 0
        interval = Interval(
            from_s,
            at_s,
            queries if known else None,
            hits if known else None,
            min(hits / queries, 1.0) if queries else None,
            requests=draw(st.one_of(st.none(), st.floats(0.0, 1e5))),
            restarts=draw(st.sampled_from([0, 0, 0, 0, 1])),
        )
        sample = EngineSample(
            "0",
            at_s,
            at_s,
            waiting=draw(st.sampled_from([None, 0.0, 3.0])),
            kv_usage=draw(st.sampled_from([None, 0.1, 1.0])),
            evictions=draw(st.one_of(st.none(), st.floats(0.0, 1e6))),
            preemptions=draw(st.one_of(st.none(), st.floats(0.0, 1e3))),
            resets=draw(st.sampled_from([None, 0.0, 1.0])),
            adapters=draw(st.sampled_from([None, AdapterActivity(("a",)), AdapterActivity(("b", "c"))])),
            block_size=draw(st.sampled_from([None, 16])),
        )
        kinds = draw(st.lists(st.sampled_from(["start", "restart", "reset", "adapter_load"]), max_size=1))
        rows.append((interval, sample, at_s, tuple(Cut(at_s, kind) for kind in kinds)))
    return rows


def watched(rows: Any) -> Iterator[tuple[Any, CurveState, CurveClassifier]]:
    classifier = CurveClassifier()
    for row in rows:
        yield row, classifier.observe(*row), classifier


@settings(max_examples=80, deadline=None)
@given(rows=scrapes())
def test_states_of_any_curve_are_sane(rows: Any) -> None:
    last: CurveState | None = None
    for (interval, sample, at_s, _), state, classifier in watched(rows):
        assert state.state in STATES
        assert state.cause is None or state.cause in CAUSES
        assert set(state.evidence) == EVIDENCE
        assert state.since_s <= at_s
        moved = interval is not None and bool(interval.queries)
        if moved:
            assert state.state not in ("no_traffic", "stalled")
        if state.state in ("no_traffic", "stalled"):
            assert state.evidence["rate"] is None
        if state.state == "stalled" and interval is not None and interval.queries is not None:
            assert sample.waiting
        if last is not None and last.state == state.state:
            assert state.since_s == last.since_s
        rate = state.evidence["rate"]
        assert rate is None or (isinstance(rate, float) and 0.0 <= rate <= 1.0)
        for episode in classifier.episodes:
            assert episode.to_s is None or episode.from_s <= episode.to_s
            assert episode.depth is None or 0.0 <= episode.depth <= 1.0
            assert episode.lost_tokens is None or episode.lost_tokens >= 0.0
        assert all(episode.to_s is not None for episode in classifier.episodes[:-1])
        last = state


@settings(max_examples=40, deadline=None)
@given(rows=scrapes())
def test_same_scrapes_same_states(rows: Any) -> None:
    first, second = list(watched(rows)), list(watched(rows))
    assert [state for _, state, _ in first] == [state for _, state, _ in second]
    assert first[-1][2].episodes == second[-1][2].episodes


@settings(max_examples=30, deadline=None)
@given(gap_s=st.sampled_from([1.0, 15.0, 60.0]), empty=st.integers(1, 400))
def test_no_traffic_comes_after_the_set_silence_at_the_latest(gap_s: float, empty: int) -> None:
    classifier = CurveClassifier()
    for index in range(20):
        interval = Interval(index * gap_s, (index + 1) * gap_s, 8000.0, 6400.0, 0.8, requests=10.0)
        classifier.observe(interval, EngineSample("0", 0.0, 0.0), (index + 1) * gap_s)
    state = None
    for index in range(20, 20 + empty):
        interval = Interval(index * gap_s, (index + 1) * gap_s, 0.0, 0.0, None)
        state = classifier.observe(interval, EngineSample("0", 0.0, 0.0), (index + 1) * gap_s)
    assert state is not None
    if empty == 1:
        assert state.state != "no_traffic"
    if empty * gap_s >= 300.0:
        assert state.state == "no_traffic"
