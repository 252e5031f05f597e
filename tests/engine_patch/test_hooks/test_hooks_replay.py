"""From the hooks through the queue and the replay to what a sink is handed."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from hitcurve_engine.ledger import MISS_REASONS
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.recording.replay import Replay
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

Start = Callable[..., Any]

SHARED = list(range(69))


def test_hits_misses_and_evictions_of_a_small_pool(start_engine: Start) -> None:
    engine = start_engine(usable=10)
    assert [engine.serve("a", SHARED), engine.serve("b", SHARED)] == [0, 64]
    assert engine.serve("large", list(range(1000, 1160))) == 0
    assert engine.serve("again", SHARED) == 0
    first, second, large, again = [finished.outcome for finished in engine.of_kind("request")]
    assert first.miss_tokens == {**dict.fromkeys(MISS_REASONS, 0), "compulsory": 64, "tail": 5}
    assert (second.hit_tokens, second.miss_tokens["tail"]) == (64, 5)
    assert large.hit_tokens == 0
    assert again.miss_tokens["capacity"] == 64
    by_large, by_again = engine.of_kind("evicted")
    assert (by_large.caused_by, len(by_large.evictions), set(by_large.stored_by)) == ("large", 4, {"a"})
    assert [eviction.depth for eviction in by_large.evictions] == [3, 2, 1, 0]
    assert {eviction.reuses for eviction in by_large.evictions} == {1}
    assert by_again.caused_by == "again"
    assert sum(regret.tokens for regret in engine.of_kind("regret")) == 64


def test_what_a_sink_is_told_of_a_request(start_engine: Start, make_request: Any) -> None:
    engine = start_engine(usable=10)
    request = make_request("r", SHARED, cache_salt="a secret", arrival_time=12.5)
    engine.admit(request)
    engine.manager.free(request)  # preempted: it still runs when its blocks are taken
    engine.admit(request)
    engine.finish(request)
    (finished,) = engine.of_kind("request")
    assert (finished.outcome.preemptions, finished.outcome.recompute_hit_tokens) == (1, 64)
    context = finished.context
    assert (context.salted, context.arrival_wall_s, context.finish_status) == (True, 12.5, "FINISHED_STOPPED")
    assert (context.stored_blocks, len(context.preempted_at_s)) == (4, 1)
    assert "secret" not in repr(finished)


def test_the_same_tokens_under_another_salt_are_isolated(start_engine: Start) -> None:
    engine = start_engine(usable=20)
    engine.serve("plain", SHARED)
    engine.serve("salted", SHARED, cache_salt="one")
    engine.serve("salted again", SHARED, cache_salt="one")
    outcomes = [finished.outcome for finished in engine.of_kind("request")]
    assert outcomes[1].miss_tokens["isolated"] == 64
    assert outcomes[1].isolated_by == {"salt": 64}
    assert outcomes[2].hit_tokens == 64


def test_isolation_can_be_switched_off(start_engine: Start) -> None:
    engine = start_engine(usable=20, isolated=False)
    engine.serve("plain", SHARED)
    engine.serve("salted", SHARED, cache_salt="one")
    assert engine.of_kind("request")[1].outcome.miss_tokens["compulsory"] == 64


def test_resets_done_and_refused(start_engine: Start, make_request: Any) -> None:
    engine = start_engine(usable=20)
    request = make_request("r", SHARED)
    engine.admit(request)
    assert engine.manager.reset_prefix_cache() is False
    engine.finish(request)
    assert engine.manager.reset_prefix_cache() is True
    engine.serve("again", SHARED)
    refused, done = engine.of_kind("reset")
    assert (refused.ok, refused.cleared_blocks, done.ok, done.cleared_blocks) == (False, 0, True, 4)
    assert engine.of_kind("request")[1].outcome.miss_tokens["reset"] == 64


def test_no_token_is_kept_once_a_request_is_over(start_engine: Start) -> None:
    engine = start_engine(usable=20)
    for number in range(5):
        engine.serve(f"r{number}", SHARED, cache_salt=f"{number}")
    engine.of_kind("request")
    replay = engine.recorder.replay
    assert (replay._open, replay._outcomes) == ({}, [])
    assert not engine.recorder.probe.events


@pytest.mark.parametrize("seed", range(5))
def test_the_replay_knows_what_the_pool_holds(start_engine: Start, make_request: Any, seed: int) -> None:
    """Random traffic: the cached keys, every reason's sum, and the evictions are those of the pool itself."""
    chance = random.Random(seed)
    engine = start_engine(usable=24)
    running: list[Any] = []
    for number in range(300):
        act = chance.random()
        if act < 0.6:
            tokens = [chance.randrange(3) for _ in range(chance.randrange(1, 6))] * 16
            request = make_request(f"r{number}", sorted(tokens), cache_salt=chance.choice([None, "one"]))
            if engine.admit(request) is None:
                engine.finish(request)
            else:
                running.append(request)
        elif act < 0.95 and running:
            engine.finish(running.pop(chance.randrange(len(running))))
        else:
            engine.manager.reset_prefix_cache()
    finished = [record.outcome for record in engine.of_kind("request")]
    assert finished
    pool, replay = engine.manager.block_pool, engine.recorder.replay
    held = {block.block_id: block.key for blocks in engine.manager.held.values() for block in blocks}
    known = {block.block_id: block.key for block in pool.free if block.key is not None} | held
    known = {block_id: key for block_id, key in known.items() if key is not None}
    assert {block_id: key for block_id, (key, _) in replay._block_keys.items()} == known
    assert replay.ledger.cached_keys == len(set(known.values()))
    assert replay.ledger.totals.unknown_evictions == 0
    for outcome in finished:
        if outcome.status == "looked_up":
            assert outcome.query_tokens == outcome.hit_tokens + sum(outcome.miss_tokens.values())
            assert outcome.anomalies == ()
    assert engine.switch.errors == {}


def test_after_lost_events_it_finds_its_way_back(start_engine: Start) -> None:
    engine = start_engine(usable=40, queue_events=30)
    engine.recorder.probe.started = True  # nobody empties the queue
    for number in range(20):
        engine.serve(f"lost {number}", [number % 3] * 64)
    dropped = engine.recorder.probe.dropped
    assert dropped > 0
    engine.recorder.start()
    assert engine.recorder.flush()
    for number in range(6):
        engine.serve(f"r{number}", [number % 3] * 64)
        assert engine.recorder.flush()
    engine.serve("large", list(range(40 * 16)))
    batch = engine.of_kind("evicted")[-1]
    found, stored = 3 * 3, 6
    assert (batch.caused_by, len(batch.evictions)) == ("large", found + stored)
    last = engine.of_kind("request")[-2].outcome
    assert (last.request_id, last.hit_tokens, last.anomalies) == ("r5", 48, ())
    assert engine.recorder.probe.dropped == dropped


def test_the_curve_over_pool_sizes_is_off_unless_it_is_asked_for(start_engine: Start) -> None:
    assert start_engine().recorder.replay.pool_curve is None


def test_the_curve_over_pool_sizes_says_what_a_larger_pool_would_have_found(start_engine: Start) -> None:
    """Two prompts of two blocks take turns in a pool of two; of each only the first block can be found."""
    engine = start_engine(usable=2, pool_curve=True)
    one, two = list(range(32)), list(range(100, 132))
    found = [engine.serve(f"r{number}", [one, two][number % 2]) for number in range(6)]
    assert engine.recorder.flush()
    sums = engine.recorder.replay.pool_curve.sums()
    assert found == [0, 0, 0, 0, 0, 0]
    assert sums.query_tokens == 6 * 32
    assert sums.hit_tokens == {"0.5x": 0, "1x": 0, "1.5x": 64, "2x": 64, "4x": 64, "unlimited": 64}


@pytest.mark.parametrize(("groups", "full_attention"), [(2, True), (1, False)])
def test_no_curve_where_the_blocks_of_a_prompt_are_not_alike(
    groups: int, full_attention: bool, caplog: pytest.LogCaptureFixture
) -> None:
    shape = CacheShape(16, 16, 0, groups, full_attention, 10, 0)
    assert Replay(shape, Settings(pool_curve=True), Switch()).pool_curve is None
    assert "no curve over pool sizes" in caplog.text
