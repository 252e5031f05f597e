"""From scrapes of one engine to readings: rates, windows, cuts, failures."""

from collections.abc import Callable
from typing import Any

import pytest

from hitcurve.curve import CurveClassifier
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
from hitcurve.scrape import Scrape

TARGET = "http://engine:8000/metrics"
Counters = dict[str, float]
Page = Callable[..., str]
Watch = Callable[..., TargetMonitor]
Read = Callable[..., list[Reading]]


def good(at_s: float, text: str) -> Scrape:
    return Scrape(at_s, at_s, TARGET, 200, text, "text/plain; version=0.0.4")


def test_the_first_page_gives_facts_and_no_rates(page: Page, readings: Read) -> None:
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


def test_a_reading_of_everything(page: Page, readings: Read) -> None:
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


def test_a_restart_is_a_cut_and_windows_span_it_by_corrected_sums(page: Page, readings: Read) -> None:
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


def test_a_restart_empties_the_request_window_as_the_new_process_starts_with_an_empty_one(
    page: Page, readings: Read
) -> None:
    found = readings(
        page(queries=0, hits=0, requests=0),
        page(queries=9000, hits=8100, requests=90),
        page(queries=1000, hits=200, requests=10),
    )
    assert found[1].request_window == RequestWindowRate(1000, 90, 0.9, pytest.approx(1000 / 6))
    assert found[2].request_window is not None
    assert (found[2].request_window.requests, found[2].request_window.hit_rate) == (10, 0.2)


def test_a_counted_reset_is_a_cut_and_leaves_the_request_window_unless_asked(page: Page, readings: Read) -> None:
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


def test_three_rates_around_an_unseen_reset(page: Page, readings: Read) -> None:
    """The rate-based one falls at once, the request-window one lags, the cumulative one hardly moves."""
    lively = [page(queries=100 * n, hits=90 * n, requests=n) for n in range(0, 10_001, 100)]
    cold = [page(queries=100 * n, hits=900_000, requests=n) for n in range(10_100, 10_501, 100)]
    last = readings(*lively, *cold, step_s=10)[-1]
    assert last.windows[0].hit_rate == 0.0
    assert last.request_window is not None
    assert last.request_window.hit_rate == pytest.approx(0.45)
    assert last.request_window.lag_s == pytest.approx(100)
    assert last.cumulative_hit_rate == pytest.approx(0.857, abs=1e-3)


def test_a_marked_cut_shows_with_the_next_good_page_and_is_not_doubled(page: Page, monitor: Watch) -> None:
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
def test_a_failed_scrape_has_totals_and_no_rates(scrape: Scrape, failure: str, page: Page, monitor: Watch) -> None:
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


def test_what_a_classifier_is_given(page: Page, monitor: Watch, note_taker: Callable[[], Any]) -> None:
    made: list[Any] = []

    def factory() -> Any:
        made.append(note_taker())
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


def test_lookups_of_requests_not_yet_counted_stay_for_their_request(page: Page, readings: Read) -> None:
    found = readings(
        page(queries=0, hits=0, requests=0),
        page(queries=100, hits=0, requests=0),
        page(queries=200, hits=100, requests=1),
    )
    assert found[1].request_window == RequestWindowRate(1000, 0, None, None)
    assert found[2].request_window == RequestWindowRate(1000, 1, 0.5, 30_000)


def test_the_real_classifier_is_the_default(page: Page) -> None:
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
