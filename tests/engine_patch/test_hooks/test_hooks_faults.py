"""Whatever breaks in the patch, the engine's answers are what they were, and one line says so."""

import logging
from collections import deque
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import Any

import pytest

from hitcurve_engine.probes.events import ALLOCATED, EVICT_BLOCKS, FREED, GAP, LOOKUP, RESET

Start = Callable[..., Any]
SHARED = list(range(69))
KINDS = {"lookup": LOOKUP, "allocated": ALLOCATED, "freed": FREED, "reset": RESET}


def traffic(engine: Any) -> list[Any]:
    answers = [engine.serve(f"r{number}", [number % 2] * (50 + number)) for number in range(12)]
    answers.append(engine.serve("large", list(range(1000, 1150))))
    return [*answers, engine.manager.reset_prefix_cache(), engine.serve("last", SHARED)]


@pytest.fixture
def undisturbed(start_engine: Start) -> list[Any]:
    answers = traffic(start_engine())
    assert {0, 48} < set(answers)
    return answers


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_fault_planted_at_every_hook(
    start_engine: Start, undisturbed: list[Any], kind: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine = start_engine()

    class Breaking(deque[Any]):
        def append(self, event: Any) -> None:
            if event[0] == kind:
                raise RuntimeError("planted")
            super().append(event)

    engine.recorder.probe.events = Breaking()
    with caplog.at_level(logging.WARNING):
        assert traffic(engine) == undisturbed
    assert not engine.switch.active
    assert sum(engine.switch.errors.values()) == 1
    assert "planted" in (engine.switch.off_reason or "")
    assert len(caplog.records) == 1


@pytest.mark.parametrize("step", ["lookup", "scheduled", "preempted", "finished", "stored", "evicted", "reset"])
def test_a_fault_planted_at_every_step_of_the_ledger(
    start_engine: Start, undisturbed: list[Any], step: str, caplog: pytest.LogCaptureFixture, make_request: Any
) -> None:
    engine = start_engine()

    def broken(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("planted")

    setattr(engine.recorder.replay.ledger, step, broken)
    with caplog.at_level(logging.WARNING):
        assert traffic(engine) == undisturbed
        request = make_request("preempted", SHARED)
        engine.admit(request)
        engine.manager.free(request)
        assert engine.recorder.flush()
    assert engine.switch.active
    assert sum(engine.switch.errors.values()) > 0
    assert len(caplog.records) == len(engine.switch.errors)


def test_too_many_errors_of_the_replay_switch_it_off(start_engine: Start, undisturbed: list[Any]) -> None:
    engine = start_engine()
    engine.recorder.replay.ledger.lookup = None
    for _ in range(10):
        traffic(engine)
        assert engine.recorder.flush()
    assert not engine.switch.active
    assert engine.switch.off_reason == "100 errors in replay.lookup"


def test_an_exception_of_the_original_is_the_callers(start_engine: Start) -> None:
    engine = start_engine()
    with pytest.raises(AttributeError):
        engine.manager.allocate_slots(None, 1)
    with pytest.raises(TypeError):
        engine.manager.get_computed_blocks()
    assert engine.switch.active
    assert engine.recorder.probe.current is None


def test_pools_and_managers_that_are_not_watched_are_left_alone(start_engine: Start) -> None:
    engine = start_engine()
    other = engine.classes[1](50)
    other.get_new_blocks(20)
    uncached = type("Uncached", (engine.classes[0],), {"enable_caching": False})
    manager = uncached(type("Config", (), {"num_blocks": 8, "kv_cache_groups": []}))
    assert manager._hitcurve_probe is None
    assert len(engine.hooks.recorders) == 1
    assert not engine.recorder.probe.events


def test_a_manager_of_unknown_build_switches_it_off(start_engine: Start, caplog: pytest.LogCaptureFixture) -> None:
    engine = start_engine()
    with caplog.at_level(logging.WARNING):
        manager = engine.classes[0](type("Config", (), {"num_blocks": 8}))
    assert manager.block_pool.num_gpu_blocks == 8
    assert not engine.switch.active
    assert len(caplog.records) == 1


def test_shutdown_ends_in_time_with_a_sink_that_hangs(start_engine: Start) -> None:
    release = Event()

    class Hanging:
        def request_finished(self, finished: Any) -> None:
            release.wait(60)

        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: None

    engine = start_engine(sinks=[Hanging()])
    engine.serve("r", SHARED)
    start = monotonic()
    engine.recorder.close(timeout_s=0.5)
    assert monotonic() - start < 30
    assert engine.recorder._thread is not None
    assert engine.recorder._thread.is_alive()
    release.set()
    engine.recorder._thread.join(30)
    assert not engine.recorder._thread.is_alive()


def test_shutdown_hands_out_what_is_queued_and_closes_the_sinks(start_engine: Start) -> None:
    engine = start_engine()
    for number in range(50):
        engine.serve(f"r{number}", SHARED)
    engine.recorder.close()
    assert [name for name, _ in engine.told].count("request") == 50
    assert engine.told[-1][0] == "closed"


def test_events_of_rare_kinds_are_replayed(start_engine: Start) -> None:
    engine = start_engine()
    engine.serve("r", SHARED)
    engine.recorder.probe.events.append((EVICT_BLOCKS, 1e9, (1, 2, 99)))
    (batch,) = engine.of_kind("evicted")
    assert (batch.caused_by, len(batch.evictions)) == (None, 2)
    engine.recorder.probe.events.append((GAP, 0.0))
    assert engine.recorder.flush()
    assert engine.recorder.replay.ledger.cached_keys == 0
