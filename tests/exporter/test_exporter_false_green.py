"""Things that look fine and are not: after each of them nothing on our page may read ok.

Every story begins with an engine that truly is fine, so that a page that always reads bad would fail here too.
"""

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest

from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.fleet import fleet_of
from hitcurve_exporter.page.document import TEXT, page
from hitcurve_exporter.page.exporter_samples import fleet_lines
from hitcurve_exporter.scraping.core_monitor import core_monitor
from hitcurve_exporter.scraping.fetched import Fetched
from hitcurve_exporter.scraping.watched_target import InternalErrors, WatchedTarget

T0 = 1_800_000_000.0
STEP_S = 15.0
PageOf = Callable[..., str]


@dataclass
class Engine:
    """Counters of one engine under steady traffic."""

    rank: str = "0"
    started_s: float = T0 - 1_000
    queries: float = 0.0
    hits: float = 0.0
    requests: int = 0

    def serve(self, requests: int, rate: float, dice: random.Random) -> None:
        """Some requests of 1,000 tokens."""
        self.requests += requests
        self.queries += 1_000 * requests
        self.hits += sum(round(1_000 * min(1.0, max(0.0, dice.gauss(rate, 0.05)))) for _ in range(requests))


class Watch:
    """One target, watched as the exporter does."""

    def __init__(self, page_of: PageOf) -> None:
        target = TargetConfig("http://e:1", "http://e:1/metrics", "e")
        self.dice = random.Random(4)
        self._page_of = page_of
        self._watched = WatchedTarget(target, 256, InternalErrors())
        self._monitor = core_monitor(target, ExporterConfig((target,)))
        self._at_s = T0

    def scrape(self, *engines: Engine) -> None:
        text = (
            self._page_of(one.queries, one.hits, one.requests, engine=one.rank, start_s=one.started_s)
            for one in engines
        )
        self.take("".join(text))

    def take(self, body: str | None) -> None:
        """A page, or an HTTP error."""
        self._at_s += STEP_S
        failure = "http_status" if body is None else None
        fetched = Fetched(
            self._at_s,
            self._at_s,
            0.01,
            500 if body is None else 200,
            "text/plain",
            None if body is None else body.encode(),
            failure,
            "HTTP 500" if body is None else "",
        )
        readings = self._monitor.observe(fetched)
        if body is not None and not any(reading.up for reading in readings):
            fetched = Fetched(self._at_s, self._at_s, 0.01, 200, failure="not_metrics")
        self._watched.take(fetched, readings, self._monitor.episodes)

    def warm_up(self, *engines: Engine, rates: Iterable[float] = (0.7, 0.7)) -> None:
        for _ in range(60):
            for engine, rate in zip(engines, rates, strict=False):
                engine.serve(60, rate, self.dice)
            self.scrape(*engines)

    @property
    def text(self) -> str:
        return page([self._watched.lines, fleet_lines(fleet_of(self._watched.readings))], TEXT).decode()

    @property
    def reads_ok(self) -> bool:
        """What somebody would call green: the target is up and each of its engines reads steady, with a rate."""
        text = self.text
        up = 'hitcurve_up{target="e"} 1' in text
        engines = set(re.findall(r'^hitcurve_query_tokens_total\{target="e",engine="([^"]*)"', text, re.M))
        steady = set(re.findall(r'^hitcurve_curve_state\{.*engine="([^"]*)".*state="steady"\} 1$', text, re.M))
        rates = set(re.findall(r'^hitcurve_hit_rate_ratio\{.*engine="([^"]*)".*window="1m"\}', text, re.M))
        return up and bool(engines) and engines == steady == rates


@pytest.fixture
def watch(page_of: PageOf) -> Watch:
    return Watch(page_of)


def test_a_healthy_engine_reads_ok(watch: Watch) -> None:
    watch.warm_up(Engine())
    assert watch.reads_ok


def test_no_data(watch: Watch) -> None:
    engine = Engine()
    watch.warm_up(engine)
    assert watch.reads_ok
    for _ in range(4):
        watch.scrape(engine)
    assert not watch.reads_ok
    for _ in range(20):
        watch.scrape(engine)
    assert not watch.reads_ok
    assert 'hitcurve_fleet_engine_states{state="no_traffic"} 1' in watch.text
    assert not re.search(
        r'^hitcurve_(fleet_|model_|target_)?hit_rate_ratio\{.*window="(30s|1m|5m)"', watch.text, re.M
    )


def test_names_that_nobody_knows(watch: Watch, page_of: PageOf) -> None:
    for number in range(60):
        watch.take(page_of(1000 * number, 700 * number, number).replace("prefix_cache", "prefix_store"))
    assert not watch.reads_ok
    assert "hitcurve_query_tokens_total" not in watch.text
    assert 'hitcurve_scrape_errors_total{target="e",reason="not_metrics"} 60' in watch.text


def test_metrics_that_were_renamed(watch: Watch, page_of: PageOf) -> None:
    engine = Engine()
    watch.warm_up(engine)
    assert watch.reads_ok
    watch.take(page_of(engine.queries, engine.hits, 5).replace("prefix_cache", "prefix_store"))
    assert not watch.reads_ok
    assert 'state="steady"} 1' not in watch.text


def test_a_scrape_that_fails(watch: Watch) -> None:
    watch.warm_up(Engine())
    assert watch.reads_ok
    watch.take(None)
    assert not watch.reads_ok
    assert 'state="steady"} 1' not in watch.text
    assert "hitcurve_hit_rate_ratio" not in watch.text


def test_one_engine_of_two_at_nothing(watch: Watch) -> None:
    watch.warm_up(Engine("0"), Engine("1"), rates=(0.9, 0.0))
    assert not watch.reads_ok
    assert 'hitcurve_fleet_engine_states{state="low"} 1' in watch.text
    (spread,) = re.findall(
        r'^hitcurve_model_hit_rate_spread_ratio\{model_name="tiny",window="1m"\} (.*)$', watch.text, re.M
    )
    assert float(spread) > 0.4


def test_one_engine_of_two_that_falls_to_nothing(watch: Watch) -> None:
    engines = Engine("0"), Engine("1")
    watch.warm_up(*engines)
    assert watch.reads_ok
    for _ in range(2):
        engines[0].serve(60, 0.7, watch.dice)
        engines[1].serve(60, 0.0, watch.dice)
        watch.scrape(*engines)
    assert not watch.reads_ok


def test_one_engine_of_two_that_is_gone(watch: Watch) -> None:
    engines = Engine("0"), Engine("1")
    watch.warm_up(*engines)
    assert 'hitcurve_model_engines{model_name="tiny"} 2' in watch.text
    engines[0].serve(60, 0.7, watch.dice)
    watch.scrape(engines[0])
    assert 'hitcurve_model_engines{model_name="tiny"} 1' in watch.text
    assert 'engine="1"' not in watch.text


def test_a_restart_between_two_polls(watch: Watch) -> None:
    watch.warm_up(Engine())
    assert watch.reads_ok
    again = Engine(started_s=T0 + 60 * STEP_S + 5)
    again.serve(10, 0.2, watch.dice)
    watch.scrape(again)
    assert not watch.reads_ok
    assert re.search(r"^hitcurve_engine_restarts_total\{.*\} 1$", watch.text, re.M)


def test_a_restart_whose_counters_have_already_overtaken(watch: Watch) -> None:
    engine = Engine()
    watch.warm_up(engine)
    assert watch.reads_ok
    engine.started_s = T0 + 60 * STEP_S + 1
    engine.serve(60, 0.7, watch.dice)
    watch.scrape(engine)
    assert not watch.reads_ok
    assert 'hitcurve_flags_total{target="e",flag="start_time_changed"} 1' in watch.text


def test_counters_that_stand_still_while_requests_wait(watch: Watch, page_of: PageOf) -> None:
    engine = Engine()
    watch.warm_up(engine)
    assert watch.reads_ok
    waiting = 'vllm:num_requests_waiting{engine="0",model_name="tiny"} 3.0\n'
    for _ in range(3):
        text = page_of(engine.queries, engine.hits, engine.requests, start_s=engine.started_s)
        watch.take(text + waiting)
    assert not watch.reads_ok
    assert 'hitcurve_fleet_engine_states{state="stalled"} 1' in watch.text


def test_counters_that_are_no_counts(watch: Watch, page_of: PageOf) -> None:
    engine = Engine()
    watch.warm_up(engine)
    assert watch.reads_ok
    page = page_of(engine.queries, engine.hits, engine.requests, start_s=engine.started_s)
    watch.take(re.sub(r"(prefix_cache_hits_total\{.*\}) .*", r"\1 NaN", page))
    assert not watch.reads_ok
    assert "hitcurve_curve_state{" not in watch.text
    assert 'hitcurve_flags_total{target="e",flag="unreadable_lookups"} 1' in watch.text
    engine.serve(60, 0.7, watch.dice)
    watch.scrape(engine)
    assert watch.reads_ok


def test_an_address_that_leads_to_several_processes_after_a_while(watch: Watch) -> None:
    engine, other = Engine(), Engine(started_s=T0 - 5_000)
    watch.warm_up(engine)
    assert watch.reads_ok
    for one in (other, engine, other, engine):
        one.serve(60, 0.7, watch.dice)
        watch.scrape(one)
        assert not watch.reads_ok
        assert "hitcurve_curve_state{" not in watch.text
