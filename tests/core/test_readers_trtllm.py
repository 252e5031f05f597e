"""TensorRT-LLM pages to samples: pages as prometheus_client prints them, and JSON."""

import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from hitcurve import flags
from hitcurve.monitor import TargetMonitor
from hitcurve.readers import PageRefused, read_page
from hitcurve.sample import EngineSample, LookupCounters
from hitcurve.scrape import Scrape

LABELS = {"model_name": "tiny", "engine_type": "trtllm"}
REUSED = "trtllm_kv_cache_reused_blocks_total"


class Server:
    """Declares the metrics as the engine does: every counter has a series from its first increase on only."""

    def __init__(self, prefix: str = "trtllm_") -> None:
        self.registry = CollectorRegistry()
        self.counters = {
            name: Counter(f"{prefix}{name}", name, LABELS, registry=self.registry)
            for name in ("kv_cache_reused_blocks", "kv_cache_missed_blocks", "num_requests_completed")
        }
        self.gauges = {
            name: Gauge(f"{prefix}{name}", name, LABELS, registry=self.registry)
            for name in (
                "kv_cache_hit_rate",
                "kv_cache_max_blocks",
                "kv_cache_tokens_per_block",
                "num_requests_running",
                "num_requests_waiting",
            )
        }

    def count(self, **added: float) -> None:
        for name, value in added.items():
            self.counters[name].labels(**LABELS).inc(value)

    def set(self, **values: float) -> None:
        for name, value in values.items():
            self.gauges[name].labels(**LABELS).set(value)

    def page(self) -> str:
        return generate_latest(self.registry).decode()


def sample(text: str, content_type: str | None = None) -> EngineSample:
    (found,) = read_page(text, content_type, at_s=7.0, monotonic_s=8.0)
    return found


@pytest.mark.parametrize("prefix", ["trtllm_", "trtllm:"])
def test_lookups_are_blocks_found_and_blocks_missed(prefix: str) -> None:
    server = Server(prefix)
    server.count(kv_cache_reused_blocks=700, kv_cache_missed_blocks=300, num_requests_completed=50)
    server.set(
        kv_cache_hit_rate=0.1,
        kv_cache_max_blocks=4000,
        kv_cache_tokens_per_block=32,
        num_requests_running=2,
        num_requests_waiting=1,
    )
    expected = EngineSample(
        engine="0",
        at_s=7.0,
        monotonic_s=8.0,
        labels=LABELS,
        lookups=LookupCounters(1000, 700, unit="blocks", tokens_per_unit=32, spelling=REUSED),
        requests=50,
        running=2,
        waiting=1,
        block_size=32,
        pool_blocks=4000,
    )
    assert sample(server.page()) == expected
    text = generate_openmetrics(server.registry).decode()
    assert sample(text, "application/openmetrics-text; version=1.0.0") == expected


def test_a_counter_that_is_announced_and_has_no_series_is_zero() -> None:
    server = Server()
    server.set(kv_cache_max_blocks=4000, kv_cache_tokens_per_block=32)
    assert sample(server.page()).lookups == LookupCounters(0, 0, "blocks", 32, REUSED)
    server.count(kv_cache_missed_blocks=300)
    assert sample(server.page()).lookups == LookupCounters(300, 0, "blocks", 32, REUSED)
    bare = "".join(line + "\n" for line in server.page().splitlines() if not line.startswith("#"))
    with pytest.raises(PageRefused, match="enable_iter_perf_stats"):
        read_page(bare, None, at_s=0, monotonic_s=0)


def test_a_page_without_block_counters_says_what_to_switch_on() -> None:
    with pytest.raises(PageRefused) as refused:
        read_page('trtllm_request_success_total{model_name="m"} 4.0\n', None, at_s=0, monotonic_s=0)
    assert refused.value.reason == (
        "The page has TensorRT-LLM metrics but no counters of cache blocks (trtllm_kv_cache_reused_blocks_total); "
        "they come with enable_iter_perf_stats: true and the first iteration."
    )


def test_blocks_of_unknown_size_have_a_rate_and_a_flag() -> None:
    server = Server()
    server.count(kv_cache_reused_blocks=7, kv_cache_missed_blocks=3)
    found = sample(server.page())
    assert found.lookups == LookupCounters(10, 7, "blocks", None, REUSED)
    assert found.flags == (flags.UNKNOWN_BLOCK_SIZE,)


def iteration(number: int, reused: Any, missed: Any, **others: Any) -> dict[str, Any]:
    stats = {"reusedBlocks": reused, "missedBlocks": missed, "tokensPerBlock": 32, "maxNumBlocks": 4000}
    return {"iter": number, "numActiveRequests": 2, "numQueuedRequests": 1, "kvCacheStats": stats, **others}


def test_json_statistics_give_the_newest_iteration() -> None:
    text = json.dumps([iteration(6, 690, 300), iteration(7, 700, 300)])
    assert sample(text, "application/json") == EngineSample(
        engine="0",
        at_s=7.0,
        monotonic_s=8.0,
        lookups=LookupCounters(1000, 700, "blocks", 32, "kvCacheStats.reusedBlocks"),
        running=2,
        waiting=1,
        block_size=32,
        pool_blocks=4000,
    )


def test_an_empty_list_says_nothing_and_costs_nothing() -> None:
    monitor = TargetMonitor("t", windows_s=(30.0,))
    pages = [[iteration(1, 100, 100)], [], [iteration(2, 160, 140)]]
    readings = []
    for number, page in enumerate(pages):
        at_s = 10.0 * number
        (reading,) = monitor.observe(Scrape(at_s, at_s, "t", 200, json.dumps(page), "application/json"))
        readings.append(reading)
    assert [reading.up for reading in readings] == [True, True, True]
    assert readings[1].interval is None
    assert [reading.state and reading.state.state for reading in readings] == ["cold"] * 3
    interval = readings[2].interval
    assert interval is not None
    assert (interval.queries, interval.hits, interval.source_unit) == (100 * 32, 60 * 32, "blocks")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "The page is JSON, not metrics"),
        ('[{"targets": []}]', "The page is JSON, not metrics"),
        (json.dumps([{"iter": 1}]), "iteration statistics of TensorRT-LLM without kvCacheStats.reusedBlocks"),
        (json.dumps([iteration(1, 10**400, 5)]), "without kvCacheStats.reusedBlocks"),
        (json.dumps([iteration(1, -1, 5)]), "without kvCacheStats.reusedBlocks"),
        (json.dumps([iteration(1, "7", 5)]), "without kvCacheStats.reusedBlocks"),
        (json.dumps([iteration(1, float("nan"), 5)]), "without kvCacheStats.reusedBlocks"),
        (json.dumps([iteration(1, 7, 5)])[:-1], "The page is JSON, not metrics"),
        (json.dumps([iteration(1, 7, 5)])[:-3], "not a metrics page"),
    ],
)
def test_other_json_is_refused(text: str, words: str) -> None:
    with pytest.raises(PageRefused, match=words.replace(".", r"\.")):
        read_page(text, "application/json", at_s=0, monotonic_s=0)


def test_block_counters_that_are_no_counts_are_unknown() -> None:
    server = Server()
    server.count(kv_cache_reused_blocks=7, kv_cache_missed_blocks=float("nan"))
    found = sample(server.page())
    assert (found.lookups, found.flags) == (None, (flags.UNREADABLE_LOOKUPS,))
