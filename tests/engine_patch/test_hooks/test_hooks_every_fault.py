"""A fault at every place of every hook, of the ledger, of the curve and of the sinks: no answer ever changes."""

import logging
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hitcurve_engine.probes import engine_hooks, manager_hooks, pool_hooks, probe, request_glance
from hitcurve_engine.probes.events import ALLOCATED
from hitcurve_engine.probes.probe import Probe
from hitcurve_engine.switch import Switch

Start = Callable[..., Any]
HOOKS = {
    **manager_hooks.MANAGER_HOOKS,
    **pool_hooks.POOL_HOOKS,
    **engine_hooks.ENGINE_HOOKS,
}
PLACES = ("append", "length", "full", "start", "clock", "argument")
SHAPES = ("as most versions have it", "with more parameters")
SHARED = list(range(69))


def planted(*arguments: Any, **options: Any) -> Any:
    raise RuntimeError("planted")


class Breaking(deque[Any]):
    """A queue that breaks where it is told to."""

    place = ""

    def append(self, event: Any) -> None:
        if self.place == "append":
            planted()
        super().append(event)

    def __len__(self) -> int:
        return planted() if self.place == "length" else super().__len__()

    def __getitem__(self, index: Any) -> Any:
        return planted() if self.place == "full" else super().__getitem__(index)


class BreakingRequest:
    """Not a field of it can be read."""

    def __getattr__(self, name: str) -> Any:
        planted()

    def __iter__(self) -> Any:
        planted()


def original_of(name: str, shape: str, result: Any, calls: list[str]) -> Callable[..., Any]:
    def allocate_slots(self: Any, request: Any, num_new_tokens: int, num_new_computed_tokens: int = 0) -> Any:
        calls.append(name)
        return result

    def cache_full_blocks(
        self: Any,
        request: Any,
        blocks: Any,
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
    ) -> Any:
        calls.append(name)
        return result

    def cache_full_blocks_by_mask(
        self: Any,
        request: Any,
        blocks: Any,
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
        block_mask: Any = None,
    ) -> Any:
        calls.append(name)
        return result

    def allocate_slots_of_0_32(
        self: Any,
        request: Any,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: Any = None,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        num_encoder_tokens: int = 0,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
        skip_zeroing_group_ids: tuple[int, ...] = (),
    ) -> Any:
        assert new_computed_blocks is None
        assert (reserved_blocks, has_scheduled_reqs, skip_zeroing_group_ids) == (0, True, ())
        calls.append(name)
        return result

    def of_request(self: Any, request: Any) -> Any:
        calls.append(name)
        return result

    def get_new_blocks(self: Any, num_blocks: int) -> Any:
        calls.append(name)
        return result

    def other(self: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(name)
        return result

    known = {
        "allocate_slots": allocate_slots_of_0_32,
        "cache_full_blocks": cache_full_blocks_by_mask,
        "get_computed_blocks": of_request,
        "free": of_request,
        "pop_blocks_for_free": of_request,
        "get_new_blocks": get_new_blocks,
    }
    if shape == SHAPES[0] and name in known:
        return known[name]
    return {"allocate_slots": allocate_slots, "cache_full_blocks": cache_full_blocks}.get(name, other)


def arguments_of(name: str, first: Any) -> tuple[Any, ...]:
    if name == "cache_full_blocks":
        return (first, [object()], 0, 1, 16, 0)
    return (first, 1) if name == "allocate_slots" else (first,)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", HOOKS)
def test_the_answer_is_the_same_object(
    name: str, place: str, shape: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    switch, calls, block = Switch(), [], SimpleNamespace(block_id=1)
    result: Any = [block] if name == "get_new_blocks" else ([block], 16)
    hook = HOOKS[name](original_of(name, shape, result, calls), switch)
    start: Callable[..., Any] = planted if place == "start" else list
    watched = Probe(0 if place == "full" else 10, start, copies=False)
    watched.events = Breaking()
    owner = SimpleNamespace(_hitcurve_probe=watched)
    owner.scheduler = SimpleNamespace(kv_cache_manager=owner)
    request = SimpleNamespace(request_id="r", block_hashes=[1], num_tokens=17, status=1)
    first: Any = [1, 2] if name == "evict_blocks" else request
    if place == "argument":
        first = BreakingRequest()
    if name == "allocate_slots":
        watched.asked, watched.pending = first, True
    if place == "clock":
        monkeypatch.setattr(probe, "monotonic", planted)
        monkeypatch.setattr(request_glance, "monotonic", planted)
    watched.events.place = place
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert hook(owner, *arguments_of(name, first)) is result
    assert calls == [name] * 3
    failed = not switch.active
    assert sum(switch.errors.values()) == len(caplog.records) == failed
    if place in ("append", "length", "full", "clock"):
        assert failed, "nothing was planted"
        assert "planted" in (switch.off_reason or "")


class Strange:
    """A manager whose probe cannot be read."""

    @property
    def _hitcurve_probe(self) -> Any:
        raise RuntimeError("planted: no probe")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", HOOKS)
def test_a_probe_that_cannot_be_read_does_not_disturb(name: str, shape: str) -> None:
    switch, calls, result = Switch(), [], object()
    owner: Any = Strange()
    if name in engine_hooks.ENGINE_HOOKS:
        owner = SimpleNamespace(scheduler=SimpleNamespace(kv_cache_manager=owner))
    first: Any = [1, 2] if name == "evict_blocks" else SimpleNamespace(request_id="r")
    hook = HOOKS[name](original_of(name, shape, result, calls), switch)
    for _ in range(2):
        assert hook(owner, *arguments_of(name, first)) is result
    assert calls == [name] * 2
    assert not switch.active
    assert "planted: no probe" in (switch.off_reason or "")


@pytest.fixture
def undisturbed(start_engine: Start) -> list[Any]:
    return traffic(start_engine(pool_curve=True))


def traffic(engine: Any) -> list[Any]:
    answers = [engine.serve(f"r{number}", [number % 2] * (50 + number)) for number in range(12)]
    answers.append(engine.serve("large", list(range(1000, 1150))))
    answers += [engine.serve("again", [0] * 60), engine.manager.reset_prefix_cache(), engine.serve("last", SHARED)]
    return answers


@pytest.mark.parametrize("method", ["request_finished", "evicted", "regretted", "cache_reset", "tick", "close"])
def test_a_fault_at_every_call_of_a_sink(
    start_engine: Start, undisturbed: list[Any], method: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = []

    class Kept:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: told.append(name)

    engine = start_engine(sinks=[type("Bad", (Kept,), {method: planted})(), Kept()])
    with caplog.at_level(logging.WARNING):
        assert traffic(engine) == undisturbed
        assert engine.recorder.flush()
        assert engine.switch.active
        engine.recorder.close()
    assert method in told, "the other sink was told nothing"
    assert sum(engine.switch.errors.values()) > 0
    assert len(caplog.records) == 1
    assert method in caplog.text


@pytest.mark.parametrize("step", ["looked_up", "scheduled", "stored"])
def test_a_fault_at_every_step_of_the_pool_curve(
    start_engine: Start, undisturbed: list[Any], step: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = start_engine(pool_curve=True)
    assert callable(getattr(engine.recorder.replay.pool_curve, step))
    engine.recorder.replay.pool_curve = Broken(engine.recorder.replay.pool_curve, step)
    with caplog.at_level(logging.WARNING):
        assert traffic(engine) == undisturbed
        assert engine.recorder.flush()
    assert engine.switch.active
    assert sum(engine.switch.errors.values()) > 0
    assert len(caplog.records) == 1


class Broken:
    """Another object, but for one method."""

    def __init__(self, inner: Any, method: str) -> None:
        self._inner = inner
        setattr(self, method, planted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_fault_at_the_hits_of_a_connector(
    start_engine: Start, make_request: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine = start_engine()
    engine.recorder.replay.ledger.external_lookup = planted
    request = make_request("r", SHARED)
    assert engine.admit(request) == 0
    with caplog.at_level(logging.WARNING):
        engine.recorder.probe.events.append((ALLOCATED, 1e9, "r", None, 0, None, True, 0, 32, None))
        assert engine.recorder.flush()
    assert engine.switch.active
    assert engine.switch.errors == {"replay.scheduled": 1}
    assert len(caplog.records) == 1
