"""A target's monitor, from scrapes to readings, with a classifier that only writes down what it is given."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve import flags
from hitcurve.curve import CurveClassifier, Episode
from hitcurve.monitor import TargetMonitor
from hitcurve.reading import (
    CurveState,
    Cut,
    Interval,
    Reading,
    RequestWindowRate,
    ServedRate,
    WindowRate,
    as_json,
    reading_from_json,
)
from hitcurve.sample import EngineSample
from hitcurve.scrape import Scrape

TARGET = "http://engine:8000/metrics"
Counters = dict[str, float]


class NoteTaker:
    """A classifier that keeps what it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[Interval | None, EngineSample | None, float, tuple[Cut, ...]]] = []

    @property
    def episodes(self) -> tuple[Episode, ...]:
        return ()

    def observe(
        self, interval: Interval | None, sample: EngineSample | None, at_s: float, cuts: tuple[Cut, ...]
    ) -> CurveState:
        self.seen.append((interval, sample, at_s, cuts))
        return CurveState("steady", None, at_s, {"scrapes": len(self.seen)})


def page(*, labels: str = 'engine="0",model_name="m"', **counters: float) -> str:
    names = {
        "queries": "vllm:prefix_cache_queries_total",
        "hits": "vllm:prefix_cache_hits_total",
        "created": "vllm:prefix_cache_queries_created",
        "requests": "vllm:time_to_first_token_seconds_count",
        "waiting": "vllm:num_requests_waiting",
        "prompt": "vllm:prompt_tokens_total",
        "cached": "vllm:prompt_tokens_cached_total",
        "preemptions": "vllm:num_preemptions_total",
        "external_queries": "vllm:external_prefix_cache_queries_total",
        "external_hits": "vllm:external_prefix_cache_hits_total",
        "resets": "hitcurve_engine_resets_total",
        "evictions": "hitcurve_engine_evicted_blocks_total",
    }
    return "".join(f"{names[key]}{{{labels}}} {value!r}\n" for key, value in counters.items())


def good(at_s: float, text: str) -> Scrape:
    return Scrape(at_s, at_s, TARGET, 200, text, "text/plain; version=0.0.4")


def monitor(**options: Any) -> TargetMonitor:
    return TargetMonitor(TARGET, **{"windows_s": (30,), "classifier_factory": NoteTaker, **options})


def readings(*pages: str, step_s: float = 15, **options: Any) -> list[Reading]:
    watching = monitor(**options)
    found = []
    for number, text in enumerate(pages):
        (reading,) = watching.observe(good(number * step_s, text))
        found.append(reading)
    return found


def test_the_first_page_gives_facts_and_no_rates() -> None:
    (first,) = readings(page(queries=100, hits=40, requests=3, preemptions=2))
    assert first == Reading(
        target=TARGET,
        engine="0",
        at_s=0,
        up=True,
        labels={"engine": "0", "model_name": "m"},
        windows=(WindowRate(30, 0, 0, None),),
        cumulative_hit_rate=0.4,
        requests_total=0,
        preemptions_total=0,
        state=CurveState("steady", None, 0, {"scrapes": 1}),
        cuts=(Cut(0, "start"),),
    )


def test_a_reading_of_everything() -> None:
    beside = {"waiting": 1, "prompt": 0, "cached": 0, "preemptions": 4, "evictions": 10, "resets": 1}
    external = {"external_queries": 0, "external_hits": 0}
    first = page(queries=100, hits=40, requests=3, **beside, **external)
    second = page(
        queries=300,
        hits=140,
        requests=7,
        waiting=2,
        prompt=200,
        cached=150,
        preemptions=5,
        evictions=14,
        resets=1,
        external_queries=100,
        external_hits=50,
    )
    reading = readings(first, second)[1]
    interval = Interval(
        from_s=0,
        to_s=15,
        queries=200,
        hits=100,
        hit_rate=0.5,
        requests=4,
        served=ServedRate(200, 150, 0.75),
        tiers={"device": 0.5, "external": 0.25},
    )
    assert reading == Reading(
        target=TARGET,
        engine="0",
        at_s=15,
        up=True,
        labels={"engine": "0", "model_name": "m"},
        interval=interval,
        windows=(WindowRate(30, 200, 100, 0.5),),
        request_window=RequestWindowRate(1000, 4, 0.5, 1000 / (4 / 15)),
        cumulative_hit_rate=140 / 300,
        query_tokens_total=200,
        hit_tokens_total=100,
        requests_total=4,
        preemptions_total=1,
        evicted_blocks_total=4,
        waiting=2,
        state=CurveState("steady", None, 15, {"scrapes": 2}),
    )
    assert reading_from_json(as_json(reading)) == reading


def test_a_restart_is_a_cut_and_windows_span_it_by_corrected_sums() -> None:
    found = readings(
        page(queries=9000, hits=8100, requests=90),
        page(queries=1000, hits=200, requests=10),
        page(queries=3000, hits=1200, requests=30),
    )
    assert [reading.cuts for reading in found] == [(Cut(0, "start"),), (Cut(15, "restart"),), ()]
    assert found[2].windows == (WindowRate(30, 3000, 1200, 0.4),)
    assert found[2].cumulative_hit_rate == 0.4
    assert found[2].restarts_total == 1
    assert (found[2].query_tokens_total, found[2].requests_total) == (3000, 30)
    assert found[2].request_window is not None
    assert found[2].request_window.requests == 30


def test_a_counted_reset_is_a_cut_and_leaves_the_request_window_unless_asked() -> None:
    pages = (
        page(queries=0, hits=0, requests=0, resets=5),
        page(queries=1000, hits=900, requests=10, resets=5),
        page(queries=2000, hits=900, requests=20, resets=7),
    )
    last = readings(*pages)[2]
    assert last.cuts == (Cut(30, "reset"),)
    assert last.resets_total == 2
    assert last.request_window is not None
    assert last.request_window.hit_rate == 0.45
    emptied = readings(*pages, resets_empty_request_window=True)[2].request_window
    assert emptied is not None
    assert (emptied.requests, emptied.hit_rate) == (10, 0.0)


def test_three_rates_around_an_unseen_reset() -> None:
    """The rate-based one falls at once, the request-window one lags, the cumulative one hardly moves."""
    lively = [page(queries=100 * n, hits=90 * n, requests=n) for n in range(0, 10_001, 100)]
    cold = [page(queries=100 * n, hits=900_000, requests=n) for n in range(10_100, 10_501, 100)]
    last = readings(*lively, *cold, step_s=10)[-1]
    assert last.windows[0].hit_rate == 0.0
    assert last.request_window is not None
    assert last.request_window.hit_rate == pytest.approx(0.45)
    assert last.request_window.lag_s == pytest.approx(100)
    assert last.cumulative_hit_rate == pytest.approx(0.857, abs=1e-3)


def test_a_marked_cut_shows_with_the_next_good_page_and_is_not_doubled() -> None:
    watching = monitor()
    watching.observe(good(0, page(queries=100, hits=50, resets=0)))
    watching.mark("reset", 7.0)
    watching.mark("adapter_load", 8.0)
    (failed,) = watching.observe(Scrape(10, 10, TARGET, error="connection refused"))
    assert failed.cuts == ()
    (reading,) = watching.observe(good(15, page(queries=200, hits=50, resets=1)))
    assert reading.cuts == (Cut(7.0, "reset"), Cut(8.0, "adapter_load"))
    assert reading.resets_total == 1
    (after,) = watching.observe(good(30, page(queries=300, hits=50, resets=1)))
    assert after.cuts == ()


@pytest.mark.parametrize(
    ("scrape", "failure"),
    [
        (Scrape(15, 15, TARGET, error="connection refused"), "connection refused"),
        (Scrape(15, 15, TARGET, 500, b"Internal Server Error"), "HTTP 500"),
        (Scrape(15, 15, TARGET, 200), "the answer has no body"),
        (good(15, "<html>"), "The page is HTML, not metrics; the address probably misses /metrics."),
    ],
)
def test_a_failed_scrape_has_totals_and_no_rates(scrape: Scrape, failure: str) -> None:
    watching = monitor()
    assert watching.observe(scrape) == (Reading(TARGET, "", 15, up=False, failure=failure),)
    watching.observe(good(20, page(queries=0, hits=0, requests=0)))
    watching.observe(good(30, page(queries=100, hits=40, requests=2)))
    later = Scrape(45, 45, TARGET, scrape.status, scrape.body, scrape.content_type, scrape.error)
    assert watching.observe(later) == (
        Reading(
            target=TARGET,
            engine="0",
            at_s=45,
            up=False,
            failure=failure,
            labels={"engine": "0", "model_name": "m"},
            query_tokens_total=100,
            hit_tokens_total=40,
            requests_total=2,
            state=CurveState("steady", None, 45, {"scrapes": 3}),
        ),
    )
    (again,) = watching.observe(good(60, page(queries=300, hits=140, requests=4)))
    assert again.interval == Interval(30, 60, 200, 100, 0.5, requests=2)


def test_what_a_classifier_is_given() -> None:
    made: list[NoteTaker] = []

    def factory() -> NoteTaker:
        made.append(NoteTaker())
        return made[-1]

    watching = monitor(classifier_factory=factory)
    watching.observe(good(0, page(queries=9, hits=4)))
    watching.observe(Scrape(15, 15, TARGET, error="no answer within 5 s"))
    watching.observe(good(30, page(queries=5, hits=1)))
    (classifier,) = made
    (first, second, third) = classifier.seen
    assert (first[0], first[2:]) == (None, (0, (Cut(0, "start"),)))
    assert first[1] is not None
    assert (first[1].at_s, first[1].engine) == (0, "0")
    assert second == (None, None, 15, ())
    assert third[0] == Interval(0, 30, 5, 1, 0.2, restarts=1)
    assert third[1] == watching.samples["0"]
    assert third[2:] == (30, (Cut(30, "restart"),))


def test_engines_of_a_page_are_apart_and_named_alike_for_ever() -> None:
    def both(first: float, second: float) -> str:
        return page(labels='engine="0",model_name="a"', queries=first, hits=0) + page(
            labels='engine="0",model_name="b"', queries=second, hits=0
        )

    watching = monitor()
    (alone,) = watching.observe(good(0, page(labels='engine="0",model_name="a"', queries=100, hits=0)))
    assert alone.engine == "0"
    pair = watching.observe(good(15, both(150, 1000)))
    assert [(reading.engine, reading.interval and reading.interval.queries) for reading in pair] == [
        ("0", 50),
        ("b", None),
    ]
    pair = watching.observe(good(30, both(160, 1001)))
    assert [(reading.engine, reading.interval and reading.interval.queries) for reading in pair] == [
        ("0", 10),
        ("b", 1),
    ]
    (gone,) = watching.observe(good(45, page(labels='engine="0",model_name="b"', queries=1003, hits=0)))
    assert (gone.engine, gone.interval and gone.interval.queries) == ("b", 2)


def test_an_engine_whose_other_labels_changed_is_the_same_one() -> None:
    watching = monitor()
    watching.observe(good(0, page(labels='engine="0",WorkerId="w1"', queries=100, hits=10)))
    (reading,) = watching.observe(good(15, page(labels='engine="0",WorkerId="w2"', queries=40, hits=10)))
    assert reading.interval == Interval(0, 15, 40, 10, 0.25, restarts=1, flags=(flags.RESTART_IN_ONE_COUNTER,))


def test_a_clock_that_goes_back_starts_anew() -> None:
    watching = monitor()
    watching.observe(good(0, page(queries=100, hits=10)))
    watching.observe(good(15, page(queries=200, hits=10)))
    (reading,) = watching.observe(good(5, page(queries=50, hits=10)))
    assert (reading.interval, reading.query_tokens_total, reading.cuts) == (None, 0, (Cut(5, "start"),))


STALL = {"queries": 100, "hits": 10}


@pytest.mark.parametrize(
    ("first", "second", "stalled"),
    [
        ({**STALL, "waiting": 3}, {**STALL, "waiting": 3}, True),
        ({**STALL, "waiting": 0}, {**STALL, "waiting": 3}, False),
        ({**STALL, "waiting": 3}, {**STALL, "waiting": 0}, False),
        (STALL, STALL, False),
        ({**STALL, "waiting": 3}, {"queries": 101, "hits": 10, "waiting": 3}, False),
        ({**STALL, "waiting": 3, "requests": 1}, {**STALL, "waiting": 3, "requests": 2}, False),
    ],
)
def test_stalled_is_waiting_at_both_ends_with_nothing_moved(
    first: Counters, second: Counters, stalled: bool
) -> None:
    assert readings(page(**first), page(**second))[1].flags == ((flags.COUNTERS_STALLED,) if stalled else ())


@pytest.mark.parametrize(
    ("counters", "flag"),
    [
        ({"queries": 5000, "hits": 0, "prompt": 1000}, flags.LOOKUPS_EXCEED_PROMPT_TOKENS),
        ({"queries": 1050, "hits": 0, "prompt": 1000}, None),
        ({"queries": 5000, "hits": 0, "prompt": 0}, None),
        (
            {"queries": 100, "hits": 60, "external_queries": 100, "external_hits": 50},
            flags.EXTERNAL_EXCEEDS_MISSES,
        ),
        ({"queries": 100, "hits": 50, "external_queries": 100, "external_hits": 50}, None),
        ({"queries": 10, "hits": 20}, flags.HITS_EXCEED_QUERIES),
    ],
)
def test_oddities_of_an_interval(counters: Counters, flag: str | None) -> None:
    cached = {"cached": 0} if "prompt" in counters else {}
    found = readings(page(**dict.fromkeys(counters, 0), **cached), page(**counters, **cached))[1]
    assert found.flags == (() if flag is None else (flag,))


def test_lookups_of_requests_not_yet_counted_stay_for_their_request() -> None:
    found = readings(
        page(queries=0, hits=0, requests=0),
        page(queries=100, hits=0, requests=0),
        page(queries=200, hits=100, requests=1),
    )
    assert found[1].request_window == RequestWindowRate(1000, 0, None, None)
    assert found[2].request_window == RequestWindowRate(1000, 1, 0.5, 30_000)


def test_blocks_of_unknown_size_have_a_rate_and_no_volumes() -> None:
    help_text = "# HELP vllm:gpu_prefix_cache_queries_total In blocks.\n"

    def blocks(queries: int, hits: int) -> str:
        return help_text + "".join(
            f'vllm:gpu_prefix_cache_{name}_total{{engine="0"}} {value}\n'
            for name, value in (("queries", queries), ("hits", hits))
        )

    second = readings(blocks(0, 0), blocks(10, 5))[1]
    assert second.interval == Interval(
        0, 15, None, None, 0.5, source_unit="blocks", flags=(flags.UNKNOWN_BLOCK_SIZE,)
    )
    assert (second.windows, second.request_window, second.cumulative_hit_rate) == ((), None, 0.5)


@given(
    st.lists(
        st.tuples(st.integers(0, 900), st.integers(0, 900), st.booleans(), st.booleans()), min_size=1, max_size=30
    )
)
def test_totals_equal_what_was_served_over_restarts_and_failures(
    life: list[tuple[int, int, bool, bool]],
) -> None:
    """Of a process that dies unseen after a failed scrape, what it served since the last good one is lost."""
    watching = monitor(windows_s=(60,))
    start, queries, hits, lost = 1.0, 0, 0, (0, 0)
    served: list[tuple[int, int]] = []
    unseen = (0, 0)
    watching.observe(good(0, page(queries=0, hits=0, created=start)))
    reading: Reading | None = None
    for number, (more, hit, restarts, fails) in enumerate(life, 1):
        if restarts:
            start, queries, hits = start + 10, 0, 0
            lost, unseen = (lost[0] + unseen[0], lost[1] + unseen[1]), (0, 0)
        gained = (more, min(more, hit))
        queries, hits = queries + gained[0], hits + gained[1]
        served.append(gained)
        unseen = (unseen[0] + gained[0], unseen[1] + gained[1])
        if fails:
            (failed,) = watching.observe(Scrape(number * 10, number * 10, TARGET, error="connection refused"))
            assert not failed.up
            continue
        unseen = (0, 0)
        (reading,) = watching.observe(good(number * 10, page(queries=queries, hits=hits, created=start)))
        totals = sum(one[0] for one in served) - lost[0], sum(one[1] for one in served) - lost[1]
        assert (reading.query_tokens_total, reading.hit_tokens_total) == totals
        assert reading.windows[0].hit_rate is None or 0 <= reading.windows[0].hit_rate <= 1


def test_the_real_classifier_is_the_default() -> None:
    watching = TargetMonitor(TARGET, windows_s=(30,))
    states = [
        reading.state.state
        for at_s in range(0, 400, 10)
        for reading in watching.observe(good(at_s, page(queries=at_s * 1000, hits=at_s * 800, requests=at_s)))
        if reading.state is not None
    ]
    assert states[0] == CurveClassifier().observe(None, None, 0).state == "cold"
    assert states[-1] == "steady"
    assert watching.episodes == {"0": ()}


def test_samples_are_those_of_the_last_good_page() -> None:
    watching = monitor()
    assert watching.samples == {}
    watching.observe(good(0, page(queries=9, hits=4)))
    watching.observe(Scrape(15, 15, TARGET, error="connection refused"))
    assert [(name, sample.at_s) for name, sample in watching.samples.items()] == [("0", 0)]
