"""Engines told apart and followed, oddities flagged, totals right whatever happens."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve import flags
from hitcurve.monitor import TargetMonitor
from hitcurve.reading import (
    Cut,
    Interval,
    Reading,
)
from hitcurve.scrape import Scrape

TARGET = "http://engine:8000/metrics"
Counters = dict[str, float]
Page = Callable[..., str]
Watch = Callable[..., TargetMonitor]
Read = Callable[..., list[Reading]]


def good(at_s: float, text: str) -> Scrape:
    return Scrape(at_s, at_s, TARGET, 200, text, "text/plain; version=0.0.4")


STALL = {"queries": 100, "hits": 10}


def test_engines_of_a_page_are_apart_and_named_alike_for_ever(page: Page, monitor: Watch) -> None:
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


def test_no_engine_gets_a_name_that_another_one_had(page: Page, monitor: Watch) -> None:
    watching = monitor()
    first = page(labels='engine="0",model_name="a"', queries=100, hits=0)
    strange = page(labels='odd="0"', queries=7, hits=0)
    watching.observe(good(0, first))
    pair = watching.observe(good(15, first + strange))
    assert [reading.engine for reading in pair] == ["0", "-"]
    watching.observe(good(30, page(labels='engine="0",model_name="b"', queries=1, hits=0) + first))
    names = {monitor.engine for monitor in watching._engines.values()}
    assert len(names) == len(watching._engines)
    twin = page(labels='a="0"', queries=7, hits=0) + page(labels='b="0"', queries=8, hits=0)
    seen = [reading.engine for reading in watching.observe(good(45, first + twin))]
    assert len(set(seen)) == 3


def test_an_engine_whose_other_labels_changed_is_the_same_one(page: Page, monitor: Watch) -> None:
    watching = monitor()
    watching.observe(good(0, page(labels='engine="0",WorkerId="w1"', queries=100, hits=10)))
    (reading,) = watching.observe(good(15, page(labels='engine="0",WorkerId="w2"', queries=40, hits=10)))
    assert reading.interval == Interval(0, 15, 40, 10, 0.25, restarts=1, flags=(flags.RESTART_IN_ONE_COUNTER,))


def test_a_clock_that_goes_back_starts_anew(page: Page, monitor: Watch) -> None:
    watching = monitor()
    watching.observe(good(0, page(queries=100, hits=10)))
    watching.observe(good(15, page(queries=200, hits=10)))
    (reading,) = watching.observe(good(5, page(queries=50, hits=10)))
    assert (reading.interval, reading.query_tokens_total, reading.cuts) == (None, 0, (Cut(5, "start"),))


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
    first: Counters, second: Counters, stalled: bool, page: Page, readings: Read
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
def test_oddities_of_an_interval(counters: Counters, flag: str | None, page: Page, readings: Read) -> None:
    cached = {"cached": 0} if "prompt" in counters else {}
    found = readings(page(**dict.fromkeys(counters, 0), **cached), page(**counters, **cached))[1]
    assert found.flags == (() if flag is None else (flag,))


def test_blocks_of_unknown_size_have_a_rate_and_no_volumes(readings: Read) -> None:
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
    life=st.lists(
        st.tuples(st.integers(0, 900), st.integers(0, 900), st.booleans(), st.booleans()), min_size=1, max_size=30
    )
)
def test_totals_equal_what_was_served_over_restarts_and_failures(
    life: list[tuple[int, int, bool, bool]], page: Page, monitor: Watch
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


def test_samples_are_those_of_the_last_good_page(page: Page, monitor: Watch) -> None:
    watching = monitor()
    assert watching.samples == {}
    watching.observe(good(0, page(queries=9, hits=4)))
    watching.observe(Scrape(15, 15, TARGET, error="connection refused"))
    assert [(name, sample.at_s) for name, sample in watching.samples.items()] == [("0", 0)]
