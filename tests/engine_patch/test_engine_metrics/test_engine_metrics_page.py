"""The page: every sample of a played engine, exact; strict readers; bounded labels; our own reader.

Longer than 300 lines because the whole page is asserted as text.
"""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.engine_patch_catalogue import (
    ENGINE_PATCH_CATALOGUE,
    ENGINE_PATCH_LABELS,
    FIRST_TOKEN,
    EnginePatchMetric,
)
from hitcurve.readers import read_page
from hitcurve_engine.ledger import MISS_REASONS, Outcome
from hitcurve_engine.metrics.adapter_labels import AdapterLabels
from hitcurve_engine.metrics.families import SnapshotCollector
from hitcurve_engine.metrics.sink import MetricsSink
from hitcurve_engine.metrics.tally import Tally
from hitcurve_engine.recording.sinks import EngineFacts, FinishedRequest, RequestContext
from hitcurve_engine.spans.span_counts import new_span_counts

Played = Callable[..., Any]

EXPECTED = """
requests_total{adapter=""} 3
requests_total{adapter="sql"} 1
query_tokens_total{adapter=""} 150
query_tokens_total{adapter="sql"} 50
hit_tokens_total{adapter=""} 48
hit_tokens_total{adapter="sql"} 0
stale_hit_tokens_total{adapter=""} 0
stale_hit_tokens_total{adapter="sql"} 0
miss_tokens_total{adapter="",reason="compulsory"} 64
miss_tokens_total{adapter="",reason="capacity"} 32
miss_tokens_total{adapter="",reason="reset"} 0
miss_tokens_total{adapter="",reason="isolated"} 0
miss_tokens_total{adapter="",reason="tail"} 6
miss_tokens_total{adapter="",reason="stranded"} 0
miss_tokens_total{adapter="",reason="unknown"} 0
miss_tokens_total{adapter="sql",reason="compulsory"} 48
miss_tokens_total{adapter="sql",reason="capacity"} 0
miss_tokens_total{adapter="sql",reason="reset"} 0
miss_tokens_total{adapter="sql",reason="isolated"} 0
miss_tokens_total{adapter="sql",reason="tail"} 2
miss_tokens_total{adapter="sql",reason="stranded"} 0
miss_tokens_total{adapter="sql",reason="unknown"} 0
isolated_tokens_total{adapter="",key="adapter"} 0
isolated_tokens_total{adapter="",key="salt"} 0
isolated_tokens_total{adapter="",key="image"} 0
isolated_tokens_total{adapter="sql",key="adapter"} 0
isolated_tokens_total{adapter="sql",key="salt"} 0
isolated_tokens_total{adapter="sql",key="image"} 0
skipped_requests_total 1
skipped_tokens_total 50
external_query_tokens_total 0
external_hit_tokens_total 0
preemptions_total 0
recompute_query_tokens_total 0
recompute_hit_tokens_total 0
stored_blocks_total 12
evicted_blocks_total{adapter="",reason="capacity"} 2
evicted_blocks_total{adapter="",reason="removed"} 0
evicted_blocks_total{adapter="sql",reason="capacity"} 0
evicted_blocks_total{adapter="sql",reason="removed"} 1
regret_tokens_total{adapter=""} 32
regret_tokens_total{adapter="sql"} 0
resets_total 1
refused_resets_total 1
cleared_blocks_total 9
evicted_block_age_seconds_bucket{adapter="",le="0.1"} 0
evicted_block_age_seconds_bucket{adapter="",le="0.5"} 0
evicted_block_age_seconds_bucket{adapter="",le="1.0"} 0
evicted_block_age_seconds_bucket{adapter="",le="5.0"} 0
evicted_block_age_seconds_bucket{adapter="",le="15.0"} 0
evicted_block_age_seconds_bucket{adapter="",le="60.0"} 2
evicted_block_age_seconds_bucket{adapter="",le="300.0"} 2
evicted_block_age_seconds_bucket{adapter="",le="900.0"} 2
evicted_block_age_seconds_bucket{adapter="",le="3600.0"} 2
evicted_block_age_seconds_bucket{adapter="",le="14400.0"} 2
evicted_block_age_seconds_bucket{adapter="",le="86400.0"} 2
evicted_block_age_seconds_bucket{adapter="",le="+Inf"} 2
evicted_block_age_seconds_count{adapter=""} 2
evicted_block_age_seconds_sum{adapter=""} 40
evicted_block_reuses_bucket{adapter="",le="0.0"} 0
evicted_block_reuses_bucket{adapter="",le="1.0"} 2
evicted_block_reuses_count{adapter=""} 2
evicted_block_reuses_sum{adapter=""} 2
evicted_block_idle_seconds_count{adapter=""} 2
evicted_block_idle_seconds_sum{adapter=""} 18
evicted_block_idle_seconds_bucket{adapter="",le="15.0"} 2
lookups_per_request_bucket{adapter="",le="1.0"} 3
lookups_per_request_count{adapter=""} 3
lookups_per_request_sum{adapter=""} 3
lookups_per_request_count{adapter="sql"} 1
cached_blocks 0
duplicate_blocks 0
pool_blocks 100
block_size_tokens 16
hash_root_info{fingerprint="0a1b2c3d"} 1
pool_curve_query_tokens_total 400
pool_curve_hit_tokens_total{pool="0.5x"} 100
pool_curve_hit_tokens_total{pool="1x"} 150
pool_curve_hit_tokens_total{pool="1.5x"} 200
pool_curve_hit_tokens_total{pool="2x"} 250
pool_curve_hit_tokens_total{pool="4x"} 300
pool_curve_hit_tokens_total{pool="unlimited"} 350
pool_curve_sampled_ratio{pools="limited"} 0.5
pool_curve_sampled_ratio{pools="unlimited"} 0.25
pool_curve_keys 77
active 1
errors_total{place="replay.stored"} 2
events_total 50
dropped_events_total 7
odd_requests_total 0
dropped_requests_total 0
dropped_ghosts_total 0
spans_total 5
dropped_spans_total{reason="queue_full"} 2
dropped_spans_total{reason="not_delivered"} 0
dropped_spans_total{reason="shutdown"} 0
dropped_spans_total{reason="error"} 0
overhead_seconds_total{thread="recorder"} 1.5
overhead_seconds_total{thread="spans"} 0.25
queued_events 3
open_requests 4
ghost_blocks 10
"""


def play(engine: Any) -> None:
    """Two equal prompts of 3 blocks; an adapter's; evictions; a prompt that regrets them; resets; a skip."""
    engine.request(10.0, 50, 0, "abc")
    engine.request(20.0, 50, 48, "abc")
    engine.request(30.0, 50, 0, "xyz", adapter="sql")
    engine.evict(30.0, "bc", "somebody")
    engine.evict(31.0, "z", None)
    engine.request(40.0, 50, 0, "dbc")
    engine.request(50.0, 50, 0, "qrs", skipped=True)
    engine.ledger.reset(60.0, True)
    engine.ledger.reset(61.0, False)
    engine.status.events, engine.status.dropped_events, engine.status.queued_events = 50, 7, 3
    engine.status.open_requests, engine.status.busy_s = 4, 1.5
    engine.status.errors["replay.stored"] = 2
    counts = new_span_counts(engine.facts)
    counts.exported, counts.dropped["queue_full"], counts.busy_s = 5, 2, 0.25
    engine.tick()


def test_the_whole_page_of_a_played_engine(played: Played, page: Any, samples: Any) -> None:
    engine = played()
    play(engine)
    seen = samples(page(engine.kept.snapshot))
    assert sums(seen, "hit_tokens") + sums(seen, "miss_tokens") == sums(seen, "query_tokens")
    expected = dict(map(parsed, EXPECTED.strip().splitlines()))
    assert {key: seen.get(key) for key in expected} == expected
    # What the list above leaves out are the other buckets, and the histograms of an adapter without evictions.
    assert {name for name, _ in seen} == {name for name, _ in expected}


def parsed(line: str) -> tuple[tuple[str, frozenset[tuple[str, str]]], float]:
    name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups("")  # type: ignore[union-attr]
    pairs = {*re.findall(r'(\w+)="([^"]*)"', labels), ("engine", "0"), ("model_name", "tiny")}
    return (f"hitcurve_engine_{name}", frozenset(pairs)), float(value)


def sums(seen: Any, name: str) -> float:
    return float(sum(value for (found, _), value in seen.items() if found == f"hitcurve_engine_{name}_total"))


def test_promtool_accepts_the_page(played: Played, page: Any, promtool: str) -> None:
    engine, other = played(), played(engine_index=1)
    play(engine)
    play(other)
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=page(engine.kept.snapshot, other.kept.snapshot).encode(),
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_every_family_is_shown_once_with_its_help(played: Played, page: Any) -> None:
    engine, other = played(), played(engine_index=1)
    play(engine)
    play(other)
    text = page(engine.kept.snapshot, other.kept.snapshot)
    assert re.findall(r"# TYPE (\S+) (\S+)", text) == [(one.name, one.kind) for one in ENGINE_PATCH_CATALOGUE]
    assert re.findall(r"# HELP (\S+) (.+)", text) == [(one.name, one.help) for one in ENGINE_PATCH_CATALOGUE]


def test_nothing_but_the_first_adapters_has_a_label_of_its_own(played: Played, page: Any, samples: Any) -> None:
    engine = played(0, 20)
    for number in range(500):
        engine.request(float(number), 33, 0, "ab", adapter=f"adapter-{number}")
    engine.tick()
    seen = samples(page(engine.kept.snapshot))
    assert sums(seen, "requests") == 500
    assert sums(seen, "query_tokens") == 500 * 33
    labels = {dict(pairs).get("adapter") for _, pairs in seen} - {None}
    assert labels == {"", "other", *(f"adapter-{number}" for number in range(20))}
    other = frozenset({("engine", "0"), ("model_name", "tiny"), ("adapter", "other")})
    assert seen["hitcurve_engine_requests_total", other] == 480
    assert not [pairs for _, pairs in seen if any("-1.0" in value for _, value in pairs)]


VLLM = """
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 200.0
vllm:prefix_cache_queries_total{engine="1",model_name="tiny"} 200.0
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 48.0
vllm:prefix_cache_hits_total{engine="1",model_name="tiny"} 48.0
"""


def test_our_own_reader_finds_resets_and_evictions_of_each_engine(played: Played, page: Any) -> None:
    engine, other = played(), played(engine_index=1)
    play(engine)
    other.tick()
    text = page(engine.kept.snapshot, other.kept.snapshot) + VLLM
    read = read_page(text, "text/plain", at_s=0.0, monotonic_s=0.0)
    assert [(one.engine, one.resets, one.evictions) for one in read] == [("0", 1, 3), ("1", 0, 0)]


def test_two_engines_of_one_rank_are_joined(played: Played, page: Any, samples: Any) -> None:
    one, two = played(), played()
    for engine in (one, two):
        play(engine)
    two.status.active = False
    two.tick()
    joined = samples(page(one.kept.snapshot, two.kept.snapshot))
    alone = samples(page(one.kept.snapshot))
    base = frozenset({("engine", "0"), ("model_name", "tiny")})
    kept = {("hitcurve_engine_block_size_tokens", base): 16.0, ("hitcurve_engine_active", base): 0.0}
    kept["hitcurve_engine_hash_root_info", base | {("fingerprint", "0a1b2c3d")}] = 1.0
    for pools, share in (("limited", 0.5), ("unlimited", 0.25)):
        kept["hitcurve_engine_pool_curve_sampled_ratio", base | {("pools", pools)}] = share
    assert joined == {key: 2 * value for key, value in alone.items()} | kept


def test_duplicates_are_counted_as_long_as_they_are_there(played: Played) -> None:
    engine = played()
    engine.ledger.stored(1.0, list("abc"), "r", 0)
    engine.ledger.stored(2.0, list("ab"), "s", 0)
    assert (engine.ledger.cached_keys, engine.ledger.duplicate_blocks) == (3, 2)
    engine.ledger.evicted(3.0, list("aac"))
    assert (engine.ledger.cached_keys, engine.ledger.duplicate_blocks) == (1, 1)
    engine.ledger.reset(4.0, True)
    assert (engine.ledger.duplicate_blocks, engine.ledger.totals.cleared_blocks) == (0, 2)


def test_a_failing_publisher_is_reported_and_keeps_nobody_from_the_numbers(played: Played) -> None:
    class Full:
        def publish(self, snapshot: object) -> None:
            raise OSError("no space left")

        def close(self) -> None:
            pass

    engine = played(0, 20, Full())
    with pytest.raises(OSError, match="no space left"):
        engine.tick()
    assert engine.kept.snapshot["hitcurve_engine_active"] == [[["0", "tiny"], 1]]
    with pytest.raises(OSError, match="no space left"):
        engine.sink.close(0.0)
    assert engine.kept.closed
    assert engine.kept.snapshot["hitcurve_engine_active"] == [[["0", "tiny"], 0]]


def test_a_collector_that_cannot_read_shows_nothing_rather_than_breaking_the_page() -> None:
    def broken() -> list[Any]:
        raise RuntimeError

    assert list(SnapshotCollector(broken).collect()) == []
    assert list(SnapshotCollector(lambda: [{"hitcurve_engine_active": 5}]).collect()) == []  # type: ignore[dict-item]


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    hit = draw(st.integers(0, 1000))
    reasons = draw(st.none() | st.fixed_dictionaries({reason: st.integers(0, 100) for reason in MISS_REASONS}))
    missed = draw(st.integers(0, 1000)) if reasons is None else sum(reasons.values())
    adapter = draw(st.none() | st.sampled_from("abcdef"))
    return Outcome(
        "r", "looked_up", hit + missed, adapter, query_tokens=hit + missed, hit_tokens=hit, miss_tokens=reasons
    )


@given(st.lists(outcomes(), max_size=30))
def test_hits_and_misses_add_up_to_queries_whatever_comes(finished: list[Outcome]) -> None:
    tally = Tally(("0", "tiny"))
    sink = MetricsSink(tally, EngineFacts(16, 100, 1, 1, 0.0), AdapterLabels(3), [])
    for outcome in finished:
        sink.request_finished(FinishedRequest(outcome, RequestContext()))
    taken = tally.snapshot()
    by_adapter: dict[str, float] = {}
    for sign, name in ((1, "query"), (-1, "hit"), (-1, "miss")):
        for labels, value in taken[f"hitcurve_engine_{name}_tokens_total"]:
            by_adapter[labels[2]] = by_adapter.get(labels[2], 0) + sign * value
    assert set(by_adapter.values()) == {0}
    assert len(by_adapter) <= 5
    assert sum(value for _, value in taken["hitcurve_engine_query_tokens_total"]) == sum(
        outcome.query_tokens or 0 for outcome in finished
    )


@pytest.mark.parametrize("metric", [*ENGINE_PATCH_CATALOGUE, FIRST_TOKEN], ids=lambda metric: metric.name)
def test_a_name_follows_the_rules(metric: EnginePatchMetric) -> None:
    assert re.fullmatch(r"hitcurve_engine_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert metric.help.endswith(".")
    # vLLM takes every metric whose name has its own name in it off the page (0.8.5 to 0.23).
    assert "vllm" not in metric.name
    assert not set(metric.labels) & set(ENGINE_PATCH_LABELS)


def test_the_document_lists_what_the_catalogue_lists(repository: Path) -> None:
    text = (repository / "docs" / "engine_metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(hitcurve_engine_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    assert rows == [
        (one.name, one.kind, ", ".join(f"`{label}`" for label in one.labels) or "–", one.help)
        for one in (*ENGINE_PATCH_CATALOGUE, FIRST_TOKEN)
    ]
