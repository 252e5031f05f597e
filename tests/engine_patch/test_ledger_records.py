"""What the ledger yields: outcomes, eviction records, regrets, totals."""

from typing import Any

import pytest

from hitcurve_engine.ledger import MISS_REASONS, Eviction, Ledger, Regret
from hitcurve_engine.ledger.events import (
    Evicted,
    ExternalLookup,
    Finished,
    Lookup,
    Preempted,
    Reset,
    Scheduled,
    Stored,
)


def serve(ledger: Ledger, name: str, at_s: float, keys: list[Any], hit_blocks: int = 0, **lookup: Any) -> None:
    """A request of whole blocks and one token: looked up, stored, scheduled; finished half a second later."""
    ledger.lookup(name, at_s, 16 * len(keys) + 1, 16 * hit_blocks, keys, **lookup)
    ledger.stored(at_s, keys[hit_blocks:], name, hit_blocks)
    ledger.scheduled(name, at_s)
    ledger.finished(name, at_s + 0.5)


def reasons(outcome: Any) -> dict[str, int]:
    return {reason: tokens for reason, tokens in outcome.miss_tokens.items() if tokens}


def test_an_eviction_tells_age_idle_time_reuse_depth_adapter_and_who(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "r1", 1.0, ["a", "b"], adapter="sql")
    serve(ledger, "r2", 4.0, ["a", "b"], hit_blocks=2, adapter="sql")
    ledger.evicted(10.0, ["b"], "r3")
    assert kept.evictions == [
        Eviction(
            at_s=10.0,
            age_s=9.0,
            idle_s=5.5,
            reuses=1,
            depth=1,
            adapter="sql",
            evicted_by="r3",
            copies_left=0,
        )
    ]


def test_a_block_is_not_idle_while_the_longer_of_two_requests_holds_it(kept: Any) -> None:
    ledger = kept.ledger
    for name in ("long", "short"):
        ledger.lookup(name, 0.0, 17, 0, ["a"])
        ledger.stored(0.0, ["a"], name, 0)
        ledger.scheduled(name, 0.0)
    ledger.finished("short", 1.0)
    ledger.finished("long", 8.0)
    ledger.evicted(10.0, ["a"])
    assert (kept.evictions[0].idle_s, kept.evictions[0].age_s) == (2.0, 10.0)


def test_a_copy_that_remains_keeps_the_content_cached(kept: Any) -> None:
    ledger = kept.ledger
    ledger.stored(0.0, ["a"])
    ledger.stored(0.0, ["a"])
    ledger.evicted(1.0, ["a"])
    assert (kept.evictions[0].copies_left, ledger.cached_keys, ledger.ghost_keys) == (1, 1, 0)
    serve(ledger, "r1", 2.0, ["a"], hit_blocks=1)
    assert kept.one().anomalies == ()
    ledger.evicted(3.0, ["a"])
    assert (kept.evictions[1].copies_left, ledger.cached_keys, ledger.ghost_keys) == (0, 0, 1)
    assert kept.evictions[1].depth is None


def test_regret_charges_the_eviction_with_what_it_stranded(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "r1", 0.0, ["a", "b", "c"])
    ledger.evicted(1.0, ["a"], "r9")
    serve(ledger, "r2", 5.0, ["a", "b", "c"], adapter="sql")
    assert kept.regrets == [Regret(at_s=5.0, request_id="r2", adapter="sql", after_s=4.0, tokens=48)]
    assert reasons(kept.outcomes[1]) == {"capacity": 16, "stranded": 32, "tail": 1}
    assert ledger.totals.regretted_tokens == 48


def test_a_miss_after_a_reset_is_no_regret(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "r1", 0.0, ["a", "b"])
    ledger.evicted(1.0, ["a"])
    ledger.reset(2.0)
    serve(ledger, "r2", 3.0, ["a", "b"])
    assert reasons(kept.outcomes[1]) == {"capacity": 16, "reset": 16, "tail": 1}
    assert [regret.tokens for regret in kept.regrets] == [16]
    assert (ledger.totals.cleared_blocks, ledger.totals.evicted_blocks) == (1, 1)


@pytest.mark.parametrize(
    ("cached", "asked", "kind"),
    [
        ({"adapter": "sql"}, {}, "adapter"),
        ({}, {"adapter": "sql", "salt": "s"}, "adapter"),
        ({"salt": "s"}, {"salt": "t"}, "salt"),
        ({"image": "i"}, {"image": "j"}, "image"),
        ({"adapter": "sql", "salt": True}, {"adapter": "sql", "salt": True}, "salt"),
        ({"salt": True, "image": True}, {"salt": True, "image": True}, "image"),
    ],
)
def test_isolation_names_the_key_kind(kept: Any, cached: dict[str, Any], asked: dict[str, Any], kind: str) -> None:
    ledger = kept.ledger
    serve(ledger, "r1", 0.0, ["k1"], content_keys=["tokens"], **cached)
    serve(ledger, "r2", 1.0, ["k2"], content_keys=["tokens"], **asked)
    assert reasons(kept.outcomes[1]) == {"isolated": 16, "tail": 1}
    assert kept.outcomes[1].isolated_by == {kind: 16}
    assert ledger.totals.isolated_by == {"adapter": 0, "salt": 0, "image": 0, kind: 16}


def test_nothing_is_isolated_from_what_is_gone_or_unknown(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "r1", 0.0, ["k1"], content_keys=["tokens"], adapter="sql")
    serve(ledger, "r2", 1.0, ["k2"])
    ledger.evicted(2.0, ["k1"])
    serve(ledger, "r3", 3.0, ["k3"], content_keys=["tokens"])
    assert [reasons(outcome) for outcome in kept.outcomes] == [{"compulsory": 16, "tail": 1}] * 3


def test_reasons_are_taken_before_the_requests_own_allocation_evicts(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "r1", 0.0, ["a", "b", "c"])
    ledger.evicted(1.0, ["a"])
    ledger.lookup("r2", 2.0, 49, 0, ["a", "b", "c"])
    ledger.evicted(2.0, ["c"], "r2")
    ledger.scheduled("r2", 2.0)
    ledger.finished("r2", 3.0)
    assert reasons(kept.outcomes[1]) == {"capacity": 16, "stranded": 32, "tail": 1}


def test_reasons_of_a_waiting_request_follow_the_cache(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "r1", 0.0, ["a", "b"])
    ledger.lookup("r2", 1.0, 33, 32, ["a", "b"])
    ledger.lookup("r2", 2.0, 33, 32, ["a", "b"])
    ledger.evicted(2.5, ["b"])
    ledger.lookup("r2", 3.0, 33, 16, ["a", "b"])
    ledger.scheduled("r2", 3.0)
    ledger.finished("r2", 4.0)
    outcome = kept.outcomes[1]
    assert (outcome.lookups, outcome.hit_tokens, outcome.queue_s) == (3, 16, 2.0)
    assert reasons(outcome) == {"capacity": 16, "tail": 1}


def test_what_the_engine_found_and_did_not_admit_is_tail(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "r1", 0.0, ["a", "b"])
    ledger.lookup("r2", 1.0, 33, 32, ["a", "b"])
    ledger.scheduled("r2", 1.0, hit_tokens=16)
    ledger.finished("r2", 2.0)
    assert (kept.outcomes[1].hit_tokens, reasons(kept.outcomes[1])) == (16, {"tail": 17})
    assert (ledger.totals.query_tokens, ledger.totals.hit_tokens) == (66, 16)
    assert kept.outcomes[1].anomalies == ()


def test_a_hit_that_ends_inside_a_block_counts_token_by_token(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "r1", 0.0, ["a", "b", "c"])
    ledger.lookup("exact", 1.0, 48, 47, ["a", "b", "c"])
    ledger.scheduled("exact", 1.0)
    ledger.finished("exact", 1.0)
    assert reasons(kept.outcomes[1]) == {"tail": 1}
    ledger.lookup("split", 2.0, 49, 20, ["a", "x", "y"])
    ledger.scheduled("split", 2.0)
    ledger.finished("split", 2.0)
    assert reasons(kept.outcomes[2]) == {"compulsory": 28, "tail": 1}


def test_without_keys_the_misses_have_no_reason(kept: Any) -> None:
    ledger = kept.ledger
    ledger.lookup("r1", 0.0, 100, 32)
    ledger.scheduled("r1", 0.0)
    ledger.finished("r1", 1.0)
    assert (kept.one().query_tokens, kept.one().hit_tokens, kept.one().miss_tokens) == (100, 32, None)
    assert ledger.totals.unexplained_miss_tokens == 68
    assert ledger.totals.miss_tokens == dict.fromkeys(MISS_REASONS, 0)


def test_a_request_that_ends_unscheduled_counts_nowhere(kept: Any) -> None:
    ledger = kept.ledger
    ledger.lookup("r1", 0.0, 17, 0, ["a"])
    ledger.finished("r1", 1.0)
    outcome = kept.one()
    assert (outcome.status, outcome.prompt_tokens, outcome.lookups) == ("not_scheduled", 17, 1)
    assert (outcome.query_tokens, outcome.hit_tokens, outcome.miss_tokens, outcome.queue_s) == (None,) * 4
    assert (ledger.totals.requests, ledger.totals.hit_rate, ledger.open_requests) == (0, None, 0)


def test_a_synchronous_external_lookup_repeats_with_the_request(kept: Any) -> None:
    ledger = kept.ledger
    for at_s, hit in ((0.0, 64), (1.0, 32)):
        ledger.lookup("r1", at_s, 100, 0)
        ledger.external_lookup("r1", at_s, 100, hit)
    ledger.scheduled("r1", 1.0)
    ledger.external_lookup("r1", 2.0, 100, 96)
    ledger.finished("r1", 3.0)
    assert (kept.one().external_query_tokens, kept.one().external_hit_tokens) == (100, 32)
    assert kept.one().computed_tokens == 68
    assert (ledger.totals.external_query_tokens, ledger.totals.external_hit_tokens) == (100, 32)


def test_events_do_what_the_methods_do() -> None:
    events = [
        Lookup("r1", 0.0, 49, 0, ["a", "b", "c"], ["x", "y", "z"], "sql", "salt", "image"),
        ExternalLookup("r1", 0.0, 49, 16, True),
        Stored(0.0, ["a", "b", "c"], "r1", 0),
        Scheduled("r1", 0.5),
        Preempted("r1", 1.0),
        Lookup("r1", 2.0, 49, 48, ["a", "b", "c"]),
        Scheduled("r1", 2.0, 32),
        Finished("r1", 3.0, 49, 16, 16),
        Evicted(4.0, ["a", "b"], "r2"),
        Reset(5.0, False),
        Reset(6.0),
    ]
    fed: list[Any] = []
    called: list[Any] = []
    by_events = Ledger(16, on_outcome=fed.append, on_eviction=fed.append)
    by_methods = Ledger(16, on_outcome=called.append, on_eviction=called.append)
    names = {
        Lookup: by_methods.lookup,
        ExternalLookup: by_methods.external_lookup,
        Stored: by_methods.stored,
        Scheduled: by_methods.scheduled,
        Preempted: by_methods.preempted,
        Finished: by_methods.finished,
        Evicted: by_methods.evicted,
        Reset: by_methods.reset,
    }
    for event in events:
        by_events.feed(event)
        names[type(event)](**event._asdict())
    assert len(fed) == 3
    assert fed == called
    assert by_events.totals == by_methods.totals
    totals = by_events.totals
    assert (totals.recompute_query_tokens, totals.recompute_hit_tokens, totals.preemptions) == (49, 32, 1)
    assert (totals.resets, totals.refused_resets, totals.cleared_blocks) == (1, 1, 1)


def test_a_block_of_another_group_that_went_is_why_a_cached_one_was_not_found(kept: Any) -> None:
    """Two groups; of the second, b was evicted and c was never kept, by the engine's own rule."""
    ledger = kept.ledger
    ledger.lookup("first", 1.0, 65, 0, list("abcd"))
    ledger.stored(1.0, list("abcd"), "first", 0)
    ledger.stored(1.0, [(1, "a"), (1, "b"), (1, "d")], "first", 0, ())
    ledger.scheduled("first", 1.0)
    ledger.finished("first", 2.0)
    ledger.evicted(3.0, [(1, "b")])
    others = [[(1, key) for key in "abcd"]]
    ledger.lookup("again", 4.0, 65, 16, list("abcd"), other_keys=others, found=["a", (1, "a")])
    ledger.scheduled("again", 4.0)
    ledger.finished("again", 5.0)
    again = kept.outcomes[-1]
    assert again.miss_tokens == {**dict.fromkeys(MISS_REASONS, 0), "capacity": 16, "stranded": 32, "tail": 1}
    assert again.anomalies == ()
    (regret,) = kept.regrets
    assert (regret.after_s, regret.tokens) == (1.0, 48)
    ledger.evicted(6.0, ["a", (1, "a")])
    assert [eviction.reuses for eviction in kept.evictions] == [0, 1, 1]
