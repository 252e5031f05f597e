"""The parts of the classifier against closed forms and hand-made numbers."""

import math
import random

import pytest

from hitcurve.curve import CurveClassifier, CurveConfig
from hitcurve.curve.batch import Batch, Sum, batch_from
from hitcurve.curve.climb import Climb
from hitcurve.curve.episodes import Episode, EpisodeLog
from hitcurve.curve.idle import Silence
from hitcurve.curve.noise import Noise
from hitcurve.curve.step import StepTest, rest_of, threshold
from hitcurve.reading import Cut, Interval
from hitcurve.sample import EngineSample, LookupCounters


def a_batch(rate: float, requests: float = 10.0, to_s: float = 15.0, size: float = 100.0) -> Batch:
    queries = requests * size
    return Batch(to_s - 15.0, to_s, queries, queries * rate, requests, True)


@pytest.mark.parametrize(
    ("interval", "queries", "hits", "requests", "known"),
    [
        (Interval(0, 15, 1000.0, 900.0, 0.9, requests=4.0), 1000.0, 900.0, 4.0, True),
        (Interval(0, 15, 4000.0, 900.0, 0.225), 4000.0, 900.0, 2.0, False),
        (Interval(0, 15, 16.0, 992.0, 1.0, requests=1.0), 16.0, 16.0, 1.0, True),
        (Interval(0, 15, None, None, 0.25, requests=3.0), 6000.0, 1500.0, 3.0, True),
        (Interval(0, 15, None, None, 0.25), 2000.0, 500.0, 1.0, False),
    ],
)
def test_interval_as_evidence(
    interval: Interval, queries: float, hits: float, requests: float, known: bool
) -> None:
    batch = batch_from(interval, 2000.0)
    assert batch is not None
    assert (batch.queries, batch.hits, batch.requests, batch.requests_known) == (queries, hits, requests, known)


def test_no_lookups_are_no_evidence() -> None:
    assert batch_from(Interval(0, 15, 0.0, 0.0, None), 2000.0) is None
    assert batch_from(Interval(0, 15, None, None, None), 2000.0) is None


def test_rate_of_a_sum_is_a_ratio_of_sums() -> None:
    total = Sum()
    total.add(a_batch(0.9, requests=1.0), 1.0)
    total.add(a_batch(0.1, requests=99.0), 99.0)
    assert total.rate == pytest.approx((90 + 990) / 10_000)


def test_score_of_misses_is_the_log_likelihood_ratio() -> None:
    test = StepTest()
    for _ in range(3):
        test.observe(a_batch(0.0), 5.0, now=0.8, then=0.08, most=math.inf)
    assert test.score == pytest.approx(15 * math.log(0.92 / 0.2))
    assert test.since.scrapes == 3
    test.observe(a_batch(1.0), 100.0, now=0.8, then=0.08, most=math.inf)
    assert (test.score, test.since.scrapes) == (0.0, 0)


def test_what_is_left_without_one_request_is_proof() -> None:
    """Fourteen of fifteen misses of usual size, as independent requests though their noise is half as large."""
    rest = rest_of(a_batch(0.0, requests=15.0), 30.0, request_noise=0.5, tokens_per_request=100.0)
    assert rest is not None
    assert rest.effective == pytest.approx(14.0)
    assert rest.proves(0.8, 0.08) == pytest.approx(
        max(14 * math.log(0.92 / 0.2), 14 * (0.98 * math.log(4.9) + 0.02 * math.log(0.025)))
    )


def test_without_a_huge_prompt_nothing_is_left_to_prove() -> None:
    """Nine requests of 100 tokens that hit 80 % and one of 4,100 that missed."""
    batch = Batch(0.0, 15.0, 5000.0, 720.0, 10.0, True)
    rest = rest_of(batch, 10.0, request_noise=1.0, tokens_per_request=100.0)
    assert rest is not None
    assert rest.proves(0.8, 0.08) == 0.0


def test_one_group_of_one_fate_leaves_nothing() -> None:
    assert rest_of(a_batch(0.0, requests=10.0), 1.0, request_noise=10.0, tokens_per_request=100.0) is None


@pytest.mark.parametrize(("first", "states"), [(0.35, ["steady", "collapsed"]), (0.7, ["steady", "steady"])])
def test_few_requests_prove_a_collapse_in_two_scrapes_but_not_in_one(first: float, states: list[str]) -> None:
    classifier, said, queries, hits = CurveClassifier(), [], 0.0, 0.0
    for number, rate in enumerate([*[0.68, 0.72] * 40, first, 0.0]):
        at_s = 15.0 * number
        interval = Interval(at_s - 15.0, at_s, 1500.0, 1500.0 * rate, rate, requests=15.0)
        queries, hits = queries + 1500.0, hits + 1500.0 * rate
        sample = EngineSample("0", at_s, at_s, labels={}, lookups=LookupCounters(queries, hits))
        said.append(classifier.observe(interval, sample, at_s).state)
    assert said[-2:] == states


def test_threshold_keeps_the_budget_of_false_alarms() -> None:
    """One alarm in 50 days at one request a second: exp(h) = 50 * 86,400 requests."""
    assert math.exp(threshold(1.0, 0.02)) == pytest.approx(50 * 86_400)


@pytest.mark.parametrize(("fate", "noise"), [(1, 1.0), (5, 5.0)])
def test_request_noise_is_learnt(fate: int, noise: float) -> None:
    """Requests in groups of one fate have that many times the binomial variance."""
    rng, learnt = random.Random(7), Noise(CurveConfig(noise_memory_scrapes=2000))
    for _ in range(4000):
        groups = 40 // fate
        rate = sum(rng.random() < 0.7 for _ in range(groups)) / groups
        learnt.learn(rate - 0.7, 0.7, 40.0)
    assert learnt.request_noise == pytest.approx(noise, rel=0.2)


def test_scatter_is_learnt_where_requests_are_many() -> None:
    rng, learnt = random.Random(7), Noise(CurveConfig())
    for _ in range(2000):
        learnt.learn(rng.gauss(0.0, 0.06), 0.7, 50_000.0)
    assert learnt.scatter == pytest.approx(0.06, rel=0.2)


def test_scatter_bounds_what_one_scrape_proves() -> None:
    noise = Noise(CurveConfig(prior_scatter=0.02))
    assert noise.effective(0.8, 1e9) == pytest.approx(0.8 * 0.2 / 0.02**2, rel=1e-3)


def test_climb_keeps_few_bins_and_all_evidence() -> None:
    climb = Climb()
    for index in range(1000):
        climb.add(a_batch(0.5, to_s=15.0 * (index + 1)), 10.0)
    assert (climb.total.scrapes, climb.total.requests) == (1000, 10_000.0)
    half = climb.last_half()
    assert half.requests == pytest.approx(5000.0, rel=0.1)
    assert (half.to_s, half.rate) == (15_000.0, 0.5)


def test_silence_counts_from_the_last_lookup() -> None:
    silence = Silence(CurveConfig())
    silence.observe(0.0, 15.0, moved=True, waiting=False)
    silence.observe(15.0, 30.0, moved=False, waiting=True)
    assert (silence.length_s(30.0), silence.stalled(30.0)) == (15.0, False)
    silence.observe(30.0, 45.0, moved=False, waiting=True)
    assert (silence.length_s(45.0), silence.stalled(45.0)) == (30.0, True)
    silence.observe(45.0, 60.0, moved=False, waiting=False)
    assert not silence.stalled(60.0)
    silence.observe(60.0, 75.0, moved=True, waiting=True)
    assert (silence.length_s(75.0), silence.stalled(75.0), silence.idle(75.0)) == (0.0, False, False)


def test_frozen_counters_with_a_queue_as_recorded() -> None:
    """1,000 queries, then twice none while 3 requests wait: stalled for 30 s at the last scrape."""
    classifier = CurveClassifier()
    states = []
    for at_s, queries, hits, waiting in [(15.0, 1000.0, 900.0, 0.0), (30.0, 0.0, 0.0, 3.0), (45.0, 0.0, 0.0, 3.0)]:
        interval = Interval(at_s - 15.0, at_s, queries, hits, hits / queries if queries else None)
        states.append(classifier.observe(interval, EngineSample("0", at_s, at_s, waiting=waiting), at_s))
    assert [state.state for state in states] == ["cold", "cold", "stalled"]
    assert (states[-1].evidence["silence_s"], states[-1].evidence["waiting"]) == (30.0, 3.0)
    assert states[-1].evidence["rate"] is None


def test_episode_counts_what_was_recomputed() -> None:
    log = EpisodeLog()
    proof = Sum()
    proof.add(a_batch(0.1), 10.0)
    log.begin(100.0, 0.8, "unknown", proof)
    log.observe(a_batch(0.3))
    log.observe(a_batch(0.9))
    log.name("pool_pressure")
    log.end(145.0)
    assert log.all == (Episode(100.0, 145.0, pytest.approx(0.7), pytest.approx(700.0 + 500.0), "pool_pressure"),)


def test_episode_without_a_known_level_has_no_numbers() -> None:
    log = EpisodeLog()
    log.begin(100.0, None, "unknown")
    log.observe(a_batch(0.0))
    assert log.all == (Episode(100.0, None, None, None, "unknown"),)


def test_a_reset_that_is_told_is_named_at_its_scrape() -> None:
    classifier = CurveClassifier()
    sample = EngineSample("0", 0.0, 0.0)
    for index in range(60):
        rate = 0.8 if index < 50 else 0.2
        interval = Interval(index * 15.0, (index + 1) * 15.0, 80_000.0, 80_000.0 * rate, rate, requests=100.0)
        cuts = (Cut(760.0, "reset"),) if index == 50 else ()
        state = classifier.observe(interval, sample, (index + 1) * 15.0, cuts)
        if index == 50:
            assert (state.state, state.cause, state.since_s) == ("collapsed", "reset", 765.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"collapse_share": 1.5},
        {"low_rate": 0.0},
        {"flat_doubt": 0.0},
        {"climb_doubt": 1.1},
        {"stuck_doubt": 1.0},
        {"baseline_memory_s": -1.0},
        {"false_alarms_per_day": 0.0},
        {"lasting_scrapes": 0},
        {"ceiling": 1.2},
        {"accept_after_s": math.nan},
    ],
)
def test_config_refuses_what_cannot_work(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CurveConfig(**wrong)
