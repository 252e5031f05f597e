"""The ENG cases that concern the ledger alone: their calls as ledger events, their answers from the ledger."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve_engine.ledger import Ledger, Outcome

Case = Callable[[str], tuple[list[dict[str, Any]], dict[str, Any]]]


@pytest.fixture
def case(shared: Path) -> Case:
    """The calls and the expectation of a case."""

    def read(name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        folder = shared / "cases" / name
        calls = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
        return calls, json.loads((folder / "expected.json").read_text())["expect"]

    return read


def play(calls: list[dict[str, Any]], block_size: int = 16) -> tuple[Ledger, list[Outcome]]:
    outcomes: list[Outcome] = []
    ledger = Ledger(block_size, on_outcome=outcomes.append)
    for call in calls:
        request, at_s = call.get("req", ""), call.get("t", 0.0)
        match call["op"]:
            case "lookup":
                ledger.lookup(request, at_s, call["tokens"], call["hit"])
            case "external_lookup":
                later = call.get("async", False)
                ledger.external_lookup(request, at_s, call["asked"], call["hit"], loads_later=later)
            case "scheduled":
                ledger.scheduled(request, at_s)
            case "preempted":
                ledger.preempted(request, at_s)
            case "finished":
                ledger.finished(
                    request,
                    at_s,
                    call.get("prompt_tokens"),
                    call.get("num_cached_tokens"),
                    call.get("num_external_computed_tokens"),
                )
            case "alloc_failed" | "load_done":
                pass
            case unknown:
                raise AssertionError(f"no event for {unknown}")
    return ledger, outcomes


def test_eng_01_lookups_while_waiting_are_one_request(case: Case) -> None:
    calls, expected = case("ENG-01")
    ledger, outcomes = play(calls)
    assert len(outcomes) == expected["spans"]
    (outcome,) = outcomes
    assert {
        "prompt_tokens": outcome.prompt_tokens,
        "cached_tokens": outcome.hit_tokens,
        "lookups": outcome.lookups,
        "queue_s": outcome.queue_s,
    } == expected["span_r1"]
    assert {"queries": ledger.totals.query_tokens, "hits": ledger.totals.hit_tokens} == expected["plugin_counters"]


def test_eng_02_a_preempted_request_keeps_its_first_outcome(case: Case) -> None:
    calls, expected = case("ENG-02")
    ledger, outcomes = play(calls)
    assert len(outcomes) == expected["spans"]
    (outcome,) = outcomes
    assert {
        "prompt_tokens": outcome.prompt_tokens,
        "cached_tokens": outcome.hit_tokens,
        "preemptions": outcome.preemptions,
        "recompute_lookup_tokens": outcome.recompute_query_tokens,
        "recompute_hit_tokens": outcome.recompute_hit_tokens,
    } == expected["span_r1"]
    totals = ledger.totals
    assert {
        "queries": totals.query_tokens,
        "hits": totals.hit_tokens,
        "preempted_queries": totals.recompute_query_tokens,
        "preempted_hits": totals.recompute_hit_tokens,
    } == expected["plugin_counters"]


def test_eng_03_a_request_that_may_not_read_the_cache_is_neither_query_nor_miss() -> None:
    outcomes: list[Outcome] = []
    ledger = Ledger(16, on_outcome=outcomes.append)
    ledger.lookup("r1", 0.0, 100, 0, [f"k{block}" for block in range(6)], skipped=True)
    ledger.external_lookup("r1", 0.0, 100, 0)
    ledger.scheduled("r1", 0.1)
    ledger.finished("r1", 1.0, prompt_tokens=100, cached_tokens=0)
    (outcome,) = outcomes
    assert (outcome.status, outcome.prompt_tokens) == ("skipped", 100)
    assert (outcome.query_tokens, outcome.hit_tokens, outcome.miss_tokens) == (None, None, None)
    assert (outcome.external_query_tokens, outcome.external_hit_tokens) == (None, None)
    totals = ledger.totals
    assert (totals.skipped_requests, totals.skipped_tokens) == (1, 100)
    assert (totals.requests, totals.query_tokens, totals.hit_tokens, sum(totals.miss_tokens.values())) == (
        0,
        0,
        0,
        0,
    )
    assert (totals.external_query_tokens, totals.external_hit_tokens, totals.hit_rate) == (0, 0, None)


def test_eng_04_what_an_exact_repeat_cannot_reach_is_tail(shared: Path) -> None:
    rows = json.loads((shared / "cases" / "ENG-04" / "table.json").read_text())
    assert len(rows) == 15
    for row in rows:
        for column, withheld in (("cached_tokens_on_exact_repeat", 0), ("with_last_block_drop", 1)):
            size, prompt, hit = row["block_size"], row["prompt_tokens"], row[column]
            outcomes: list[Outcome] = []
            ledger = Ledger(size, withheld_blocks=withheld, on_outcome=outcomes.append)
            keys = list(range(prompt // size))
            ledger.stored(0.0, keys)
            ledger.lookup("repeat", 1.0, prompt, hit, keys)
            ledger.scheduled("repeat", 1.0)
            ledger.finished("repeat", 2.0)
            (outcome,) = outcomes
            assert outcome.miss_tokens is not None
            assert {reason: n for reason, n in outcome.miss_tokens.items() if n} == {"tail": prompt - hit}, row
            assert outcome.anomalies == ()


def test_eng_05_sentinels_are_left_off_and_inconsistent_counts_flagged(case: Case) -> None:
    calls, expected = case("ENG-05")
    ledger, outcomes = play(calls)
    assert [outcome.request_id for outcome in outcomes] == ["r1", "r2", "r3", "r4"]
    for outcome in outcomes:
        assert outcome.cached_tokens == expected[outcome.request_id]["cached_tokens"]
        assert bool(outcome.anomalies) == expected[outcome.request_id].get("inconsistent", False)
        assert outcome.status == "not_looked_up"
        assert outcome.hit_tokens is None
    assert ledger.totals.anomalies == expected["anomalies"]
    assert (ledger.totals.query_tokens, ledger.totals.hit_tokens) == (0, 0)


def test_eng_11_a_reset_is_no_eviction(case: Case) -> None:
    calls, expected = case("ENG-11")
    stored, refused, evicted, done = calls
    assert (refused["ok"], done["ok"]) == (False, True)
    ledger = Ledger(16)
    keys = list(range(stored["count"]))
    ledger.stored(stored["t"], keys)
    ledger.reset(refused["t"], ok=refused["ok"])
    assert ledger.cached_keys == stored["count"]
    ledger.evicted(evicted["t"], keys[: evicted["count"]])
    ledger.reset(done["t"], ok=done["ok"])
    totals = ledger.totals
    assert totals.evicted_blocks == expected["evictions"]["capacity"]
    assert {"ok": totals.resets, "refused": totals.refused_resets} == expected["cache_resets"]
    assert totals.cleared_blocks == expected["blocks_cleared_by_reset"] == done["cleared"]
    assert ledger.cached_keys == expected["cached_blocks_after"]


def test_eng_17_an_asynchronous_load_is_asked_for_once(case: Case) -> None:
    calls, expected = case("ENG-17")
    ledger, outcomes = play([*calls, {"t": 1.0, "op": "finished", "req": "r1"}])
    assert len(outcomes) == expected["spans"]
    (outcome,) = outcomes
    assert {
        "prompt_tokens": outcome.prompt_tokens,
        "cached_tokens_local": outcome.hit_tokens,
        "cached_tokens_external": outcome.external_hit_tokens,
        "computed_tokens": outcome.computed_tokens,
    } == expected["span_r1"]
    totals = ledger.totals
    assert {"queries": totals.external_query_tokens, "hits": totals.external_hit_tokens} == expected["external"]
