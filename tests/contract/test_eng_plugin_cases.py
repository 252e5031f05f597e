"""The ENG cases that concern the hooks, played through them on managers that answer as the cases say.

Longer than 300 lines because all cases share one stand-in for vLLM's cache manager.
"""

import enum
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hitcurve_engine.ledger import Outcome
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.install import Hooks
from hitcurve_engine.recording.recorder import Recorder
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

BLOCK_SIZE = 16


class State(enum.IntEnum):
    WAITING = 1
    RUNNING = 2
    FINISHED_STOPPED = 7


@dataclass
class Request:
    request_id: str
    num_tokens: int
    status: State = State.WAITING
    skip_reading_prefix_cache: bool = False
    num_preemptions: int = 0
    num_cached_tokens: int | None = None
    num_external_computed_tokens: int | None = None
    cache_salt: str | None = None
    lora_request: Any = None
    mm_features: Any = ()

    @property
    def num_prompt_tokens(self) -> int:
        return self.num_tokens

    @property
    def block_hashes(self) -> list[str]:
        return [f"{self.request_id}-{index}" for index in range(self.num_tokens // BLOCK_SIZE)]

    @property
    def all_token_ids(self) -> list[int]:
        return list(range(self.num_tokens))


class Pool:
    num_gpu_blocks = 501

    def __init__(self) -> None:
        self.blocks = [SimpleNamespace(block_id=number) for number in range(self.num_gpu_blocks)]

    def get_new_blocks(self, num_blocks: int) -> list[Any]:
        return self.blocks[1 : num_blocks + 1]

    def cache_full_blocks(
        self, request: Request, blocks: list[Any], num_cached_blocks: int, **others: int
    ) -> None:
        pass


def make_manager(lookup: Callable[[Any, Request], Any]) -> type:
    """A class of managers whose lookup answers so."""

    class Manager:
        enable_caching = True
        block_size = BLOCK_SIZE
        room = True

        def __init__(self, kv_cache_config: Any) -> None:
            self.block_pool = Pool()

        def get_computed_blocks(self, request: Request) -> Any:
            return lookup(self, request)

        def get_computed_blocks_for_connector(self, request: Request) -> Any:
            return (*self.get_computed_blocks(request), False)

        def allocate_slots(
            self,
            request: Request,
            num_new_tokens: int,
            num_new_computed_tokens: int = 0,
            new_computed_blocks: Any = None,
            num_external_computed_tokens: int = 0,
        ) -> Any:
            return self if self.room else None

        def free(self, request: Request) -> None:
            pass

        def reset_prefix_cache(self) -> bool:
            return self.room

    return Manager


@dataclass
class Watched:
    """A hooked class, one manager of it, and what its recorder hands out."""

    manager: Any
    hooks: Hooks
    recorder: Recorder
    switch: Switch
    outcomes: list[Outcome] = field(default_factory=list)
    resets: list[Any] = field(default_factory=list)

    def request_finished(self, finished: Any) -> None:
        self.outcomes.append(finished.outcome)

    def cache_reset(self, reset: Any) -> None:
        self.resets.append(reset)

    def evicted(self, batch: Any) -> None:
        pass

    def regretted(self, regret: Any) -> None:
        pass

    def tick(self, status: Any, totals: Any) -> None:
        pass

    def close(self, deadline_s: float) -> None:
        pass

    def settle(self) -> None:
        assert self.recorder.flush()

    def finish(self, request: Request) -> None:
        request.status = State.FINISHED_STOPPED
        self.manager.free(request)


Watch = Callable[..., Watched]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Hook into a class of managers and build one."""
    all_hooks = []

    def start(lookup: Callable[[Any, Request], Any], **settings: Any) -> Watched:
        switch = Switch()
        held: list[Watched] = []

        def make(shape: CacheShape) -> Recorder:
            return Recorder(shape, Settings(**settings), switch, sinks=lambda facts, on_error: [held[0]])

        hooks = Hooks(switch, make)
        all_hooks.append(hooks)
        kind = make_manager(lookup)
        hooks.hook_manager(kind)
        hooks.hook_pool(Pool)
        group = SimpleNamespace(kv_cache_spec=type("FullAttentionSpec", (), {"block_size": BLOCK_SIZE})())
        manager = kind(SimpleNamespace(kv_cache_groups=[group]))
        held.append(Watched(manager, hooks, hooks.recorders[0], switch))
        return held[0]

    yield start
    for hooks in all_hooks:
        hooks.remove()


def hit(manager: Any, request: Request) -> Any:
    """A lookup that finds what the test has written on the manager."""
    return ("blocks", manager.hit)


def play(watched: Watched, calls: list[dict[str, Any]]) -> None:
    """The calls of a case, made as vLLM's scheduler makes them."""
    requests: dict[str, Request] = {}
    for number, call in enumerate(calls):
        request = requests.setdefault(call["req"], Request(call["req"], call.get("tokens", 0)))
        following = calls[number + 1]["op"] if number + 1 < len(calls) else None
        match call["op"]:
            case "lookup":
                request.num_tokens = call["tokens"]
                watched.manager.hit = call["hit"]
                watched.manager.get_computed_blocks(request)
            case "alloc_failed" | "scheduled":
                watched.manager.room = call["op"] == "scheduled"
                watched.manager.allocate_slots(request, 1, num_new_computed_tokens=watched.manager.hit)
                request.status = State.RUNNING if watched.manager.room else State.WAITING
            case "external_lookup" if following != "scheduled":
                watched.manager.allocate_slots(
                    request,
                    0,
                    num_new_computed_tokens=watched.manager.hit,
                    num_external_computed_tokens=call["hit"],
                )
            case "preempted":
                watched.manager.free(request)
                request.num_preemptions += 1
            case "finished":
                watched.finish(request)


@pytest.fixture
def case(shared: Path) -> Callable[[str], tuple[list[dict[str, Any]], dict[str, Any]]]:
    def read(name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        folder = shared / "cases" / name
        calls = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
        return calls, json.loads((folder / "expected.json").read_text())["expect"]

    return read


def test_eng_01_through_the_hooks(watch: Watch, case: Any) -> None:
    calls, expected = case("ENG-01")
    watched = watch(hit)
    play(watched, calls)
    watched.settle()
    (outcome,) = watched.outcomes
    assert outcome.prompt_tokens == expected["span_r1"]["prompt_tokens"]
    assert (outcome.hit_tokens, outcome.lookups) == (1024, 4)
    totals = watched.recorder.replay.ledger.totals
    assert {"queries": totals.query_tokens, "hits": totals.hit_tokens} == expected["plugin_counters"]


def test_eng_02_through_the_hooks(watch: Watch, case: Any) -> None:
    calls, expected = case("ENG-02")
    watched = watch(hit)
    play(watched, calls)
    watched.settle()
    (outcome,) = watched.outcomes
    assert {
        "prompt_tokens": outcome.prompt_tokens,
        "cached_tokens": outcome.hit_tokens,
        "preemptions": outcome.preemptions,
        "recompute_lookup_tokens": outcome.recompute_query_tokens,
        "recompute_hit_tokens": outcome.recompute_hit_tokens,
    } == expected["span_r1"]


def test_eng_03_a_skipped_lookup_is_neither_query_nor_miss(watch: Watch) -> None:
    watched = watch(lambda manager, request: ("blocks", 0))
    marked = Request("marked", 100, skip_reading_prefix_cache=True)
    for request in (marked, Request("plain", 100)):
        watched.manager.get_computed_blocks(request)
        watched.manager.allocate_slots(request, 100, num_new_computed_tokens=0, num_external_computed_tokens=16)
        watched.finish(request)
    watched.settle()
    skipped, plain = watched.outcomes
    assert (skipped.status, skipped.query_tokens, skipped.external_query_tokens) == ("skipped", None, None)
    assert (plain.status, plain.query_tokens, plain.external_hit_tokens) == ("looked_up", 100, 16)
    totals = watched.recorder.replay.ledger.totals
    assert (totals.query_tokens, totals.skipped_tokens, totals.external_hit_tokens) == (100, 100, 16)


def test_eng_05_sentinels_of_the_engine_are_left_off(watch: Watch, case: Any) -> None:
    calls, expected = case("ENG-05")
    watched = watch(hit)
    for call in calls:
        request = Request(call["req"], call["prompt_tokens"])
        request.num_cached_tokens = call["num_cached_tokens"]
        request.num_external_computed_tokens = call.get("num_external_computed_tokens")
        watched.finish(request)
    watched.recorder.start()
    watched.settle()
    for outcome in watched.outcomes:
        assert outcome.cached_tokens == expected[outcome.request_id]["cached_tokens"]
        assert bool(outcome.anomalies) == expected[outcome.request_id].get("inconsistent", False)
    assert watched.switch.active


@pytest.mark.parametrize("answer", [("blocks", 32), ("blocks", 32, 0), ("blocks", 32, 0, False)])
def test_eng_06_return_values_of_two_to_four_items_pass_untouched(watch: Watch, answer: tuple[Any, ...]) -> None:
    watched = watch(lambda manager, request: answer)
    request = Request("r", 64)
    assert watched.manager.get_computed_blocks(request) is answer
    assert watched.manager.allocate_slots(request, 32, num_new_computed_tokens=32) is watched.manager
    watched.finish(request)
    watched.settle()
    (outcome,) = watched.outcomes
    assert (outcome.query_tokens, outcome.hit_tokens) == (64, 32)


def test_eng_06_a_lookup_through_another_method_is_one_lookup(watch: Watch) -> None:
    watched = watch(lambda manager, request: ("blocks", 32, 0))
    request = Request("r", 64)
    assert watched.manager.get_computed_blocks_for_connector(request) == ("blocks", 32, 0, False)
    watched.manager.allocate_slots(request, 32, num_new_computed_tokens=32)
    watched.finish(request)
    watched.settle()
    (outcome,) = watched.outcomes
    assert (outcome.hit_tokens, outcome.lookups) == (32, 1)


@pytest.mark.parametrize("answer", [None, {"blocks": [], "tokens": 3}, ("blocks", "32"), ("blocks", -1), (), 7])
def test_eng_06_an_unknown_shape_switches_off_with_one_warning(
    watch: Watch, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    watched = watch(lambda manager, request: answer)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            assert watched.manager.get_computed_blocks(Request(f"r{number}", 64)) is answer
        watched.settle()
    assert not watched.switch.active
    assert len(caplog.records) == 1
    assert "the engine patch is off" in caplog.text
    assert watched.manager.allocate_slots(Request("later", 64), 64) is watched.manager


def test_eng_07_register_may_be_called_again_and_again() -> None:
    script = """
        import sys, types
        from hitcurve_engine import plugin
        from hitcurve_engine.probes.install import MANAGER_MODULE
        module = types.ModuleType(MANAGER_MODULE)
        class KVCacheManager:
            def free(self, request): return "freed"
        original = KVCacheManager.free
        module.KVCacheManager = KVCacheManager
        sys.modules[MANAGER_MODULE] = module
        for _ in range(3):
            plugin.register()
        assert KVCacheManager.free.__wrapped__ is original
        plugin.unregister()
        assert KVCacheManager.free is original
    """
    run_python(script)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_eng_07_the_wrappers_are_there_in_children(method: str, tmp_path: Path) -> None:
    script = tmp_path / "children.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing, sys, types
            from hitcurve_engine import plugin
            from hitcurve_engine.probes.install import MANAGER_MODULE
            class KVCacheManager:
                def free(self, request): return "freed"
            def stand_in():
                module = types.ModuleType(MANAGER_MODULE)
                module.KVCacheManager = KVCacheManager
                sys.modules[MANAGER_MODULE] = module
            def child(depths):
                if {method!r} == "spawn":
                    stand_in()
                    plugin.register()
                depth, method = 0, KVCacheManager.free
                while hasattr(method, "__wrapped__"):
                    depth, method = depth + 1, method.__wrapped__
                depths.put(depth)
            if __name__ == "__main__":
                stand_in()
                plugin.register()
                context = multiprocessing.get_context({method!r})
                depths = context.Queue()
                process = context.Process(target=child, args=(depths,))
                process.start()
                assert depths.get(timeout=60) == 1
                process.join()
            """
        )
    )
    run_python(script)


def test_eng_08_a_recorder_works_on_in_a_forked_child(watch: Watch) -> None:
    watched = watch(lambda manager, request: ("blocks", 32))
    one(watched, "in the parent")
    watched.settle()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def child() -> None:
        one(watched, "in the child")
        watched.settle()
        answers.put((os.getpid(), [outcome.request_id for outcome in watched.outcomes]))

    process = context.Process(target=child)
    process.start()
    process.join(30)
    assert process.exitcode == 0
    pid, seen = answers.get()
    assert pid != os.getpid()
    assert seen == ["in the parent", "in the child"]
    assert [outcome.request_id for outcome in watched.outcomes] == ["in the parent"]


def test_eng_15_an_overflow_is_counted_exactly_and_bounded(watch: Watch) -> None:
    watched = watch(lambda manager, request: ("blocks", 0), queue_events=2048)
    watched.recorder.probe.started = True  # nobody empties the queue
    for number in range(10_000):
        watched.manager.get_computed_blocks(Request(f"r{number}", 64))
    probe = watched.recorder.probe
    assert len(probe.events) == 2048
    assert probe.dropped == 10_000 - 2047  # the last place holds the mark of the gap
    watched.recorder.start()
    watched.settle()
    assert watched.switch.active
    one(watched, "after the gap")
    watched.settle()
    assert watched.outcomes[-1].request_id == "after the gap"
    assert probe.dropped == 10_000 - 2047


def one(watched: Watched, name: str) -> None:
    request = Request(name, 64)
    watched.manager.get_computed_blocks(request)
    watched.manager.allocate_slots(request, 32, num_new_computed_tokens=32)
    watched.finish(request)


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_eng_16_wrappers_before_and_after_ours_are_called_once(order: str) -> None:
    kind = make_manager(lambda manager, request: ("blocks", 32))
    original = kind.__dict__["get_computed_blocks"]
    calls: list[str] = []

    def foreign(name: str) -> Any:
        inner = kind.__dict__["get_computed_blocks"]

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return inner(*args, **kwargs)

        kind.get_computed_blocks = wrapper  # type: ignore[attr-defined]
        return inner

    before = foreign("before")
    switch = Switch()
    hooks = Hooks(switch, lambda shape: Recorder(shape, Settings(), switch, sinks=lambda facts, on_error: []))
    hooks.hook_manager(kind)
    after = foreign("after")
    group = SimpleNamespace(kv_cache_spec=type("FullAttentionSpec", (), {"block_size": BLOCK_SIZE})())
    manager = kind(SimpleNamespace(kv_cache_groups=[group]))
    recorder = hooks.recorders[0]
    manager.get_computed_blocks(Request("r", 64))
    assert recorder.flush()
    assert (calls, recorder.replay.ledger.open_requests) == (["after", "before"], 1)
    calls.clear()
    if order == "ours first":
        hooks.remove()
        manager.get_computed_blocks(Request("r", 64))
        assert calls == ["after", "before"]
        kind.get_computed_blocks = after  # type: ignore[attr-defined]
    else:
        kind.get_computed_blocks = after  # type: ignore[attr-defined]
        manager.get_computed_blocks(Request("r", 64))
        assert calls == ["before"]
        hooks.remove()
        assert kind.__dict__["get_computed_blocks"].__name__ == "wrapper"
    calls.clear()
    manager.get_computed_blocks(Request("r", 64))
    assert calls == ["before"]
    kind.get_computed_blocks = before  # type: ignore[attr-defined]
    assert kind.__dict__["get_computed_blocks"] is original


def test_eng_17_through_the_hooks(watch: Watch, case: Any) -> None:
    calls, expected = case("ENG-17")
    watched = watch(hit)
    play(watched, [*calls, {"op": "finished", "req": "r1"}])
    watched.settle()
    (outcome,) = watched.outcomes
    assert {
        "prompt_tokens": outcome.prompt_tokens,
        "cached_tokens_local": outcome.hit_tokens,
        "cached_tokens_external": outcome.external_hit_tokens,
        "computed_tokens": outcome.computed_tokens,
    } == expected["span_r1"]
    totals = watched.recorder.replay.ledger.totals
    assert {"queries": totals.external_query_tokens, "hits": totals.external_hit_tokens} == expected["external"]


@pytest.mark.parametrize(
    ("has_connector", "asked"), [(True, (1440, 240)), (False, (720, 240)), (None, (720, 240))]
)
def test_eng_17_what_a_cache_outside_does_not_find_was_asked_for_too(
    watch: Watch, case: Any, has_connector: bool | None, asked: tuple[int, int]
) -> None:
    """With a connector vLLM asks it for every request; without one nothing is asked, which is not 0."""
    calls, _ = case("ENG-17")
    watched = watch(hit)
    watched.recorder.describe({"has_connector": has_connector})
    play(watched, [*calls, {"op": "finished", "req": "r1"}])
    watched.manager.hit = 480
    request = Request("r2", 1200)
    watched.manager.get_computed_blocks(request)
    watched.manager.allocate_slots(request, 1, num_new_computed_tokens=480, num_external_computed_tokens=0)
    watched.finish(request)
    watched.settle()
    second = watched.outcomes[1]
    said = (720, 0) if has_connector else (None, None)
    assert (second.external_query_tokens, second.external_hit_tokens) == said
    totals = watched.recorder.replay.ledger.totals
    assert (totals.external_query_tokens, totals.external_hit_tokens) == asked


def test_eng_20_a_sink_that_raises_is_counted_and_logged_once(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    watched = watch(lambda manager, request: ("blocks", 32))

    def broken(finished: Any) -> None:
        raise RuntimeError("planted")

    watched.request_finished = broken  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            one(watched, f"r{number}")
        watched.settle()
    (count,) = watched.switch.errors.values()
    assert count == 3
    assert len(caplog.records) == 1
    assert watched.switch.active


def run_python(script: str | Path) -> None:
    root = Path(__file__).resolve().parents[2]
    command = (
        [sys.executable, str(script)]
        if isinstance(script, Path)
        else [sys.executable, "-c", textwrap.dedent(script)]
    )
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "engine_patch")])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
