"""A stand-in for vLLM's cache manager and block pool with real caching, small enough to be read."""

import enum
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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
class StandInRequest:
    """As much of a request as the patch reads."""

    request_id: str
    all_token_ids: list[int]
    cache_salt: str | None = None
    status: State = State.WAITING
    skip_reading_prefix_cache: bool = False
    arrival_time: float = 0.0
    lora_request: Any = None

    @property
    def num_tokens(self) -> int:
        return len(self.all_token_ids)

    @property
    def num_prompt_tokens(self) -> int:
        return self.num_tokens

    @property
    def block_hashes(self) -> list[int]:
        full = self.num_tokens // BLOCK_SIZE
        return [hash((self.cache_salt, *self.all_token_ids[: (n + 1) * BLOCK_SIZE])) for n in range(full)]


@dataclass
class Block:
    block_id: int
    key: int | None = None


def make_classes() -> tuple[type, type]:
    """Fresh classes, since hooks change them."""

    class Pool:
        def __init__(self, num_gpu_blocks: int) -> None:
            self.num_gpu_blocks = num_gpu_blocks
            self.free = [Block(number) for number in range(1, num_gpu_blocks)]
            self.cached: dict[int, list[Block]] = {}

        def get_new_blocks(self, num_blocks: int) -> list[Block]:
            taken, self.free = self.free[:num_blocks], self.free[num_blocks:]
            for block in taken:
                if block.key is not None:
                    self.cached[block.key].remove(block)
                    if not self.cached[block.key]:
                        del self.cached[block.key]
                    block.key = None
            return taken

        def cache_full_blocks(
            self,
            request: StandInRequest,
            blocks: list[Block],
            num_cached_blocks: int,
            num_full_blocks: int,
            block_size: int,
            kv_cache_group_id: int,
        ) -> None:
            for index in range(num_cached_blocks, num_full_blocks):
                blocks[index].key = request.block_hashes[index]
                self.cached.setdefault(request.block_hashes[index], []).append(blocks[index])

    class Manager:
        enable_caching = True
        block_size = BLOCK_SIZE

        def __init__(self, kv_cache_config: Any) -> None:
            self.block_pool = Pool(kv_cache_config.num_blocks)
            self.held: dict[str, list[Block]] = {}

        def get_computed_blocks(self, request: StandInRequest) -> tuple[Any, int]:
            found = []
            for key in request.block_hashes[: (request.num_tokens - 1) // BLOCK_SIZE]:
                if key not in self.block_pool.cached:
                    break
                found.append(self.block_pool.cached[key][0])
            return SimpleNamespace(blocks=(found,)), len(found) * BLOCK_SIZE

        def allocate_slots(
            self,
            request: StandInRequest,
            num_new_tokens: int,
            num_new_computed_tokens: int = 0,
            new_computed_blocks: Any = None,
        ) -> Any:
            hit = new_computed_blocks.blocks[0]
            needed = -(-request.num_tokens // BLOCK_SIZE) - len(hit)
            pool = self.block_pool
            free = [block for block in pool.free if block not in hit]
            if needed > len(free):
                return None
            pool.free = free
            blocks = self.held[request.request_id] = [*hit, *pool.get_new_blocks(needed)]
            pool.cache_full_blocks(
                request=request,
                blocks=blocks,
                num_cached_blocks=len(hit),
                num_full_blocks=request.num_tokens // BLOCK_SIZE,
                block_size=BLOCK_SIZE,
                kv_cache_group_id=0,
            )
            return blocks

        def free(self, request: StandInRequest) -> None:
            blocks = reversed(self.held.pop(request.request_id, []))
            self.block_pool.free += [block for block in blocks if block not in self.block_pool.free]

        def reset_prefix_cache(self) -> bool:
            if self.held:
                return False
            self.block_pool.cached.clear()
            for block in self.block_pool.free:
                block.key = None
            return True

    return Manager, Pool


@dataclass
class Engine:
    """A hooked manager, driven as a scheduler drives it, and everything that its sink was handed."""

    manager: Any
    hooks: Hooks
    recorder: Recorder
    switch: Switch
    classes: tuple[type, type]
    told: list[tuple[str, Any]] = field(default_factory=list)

    def admit(self, request: StandInRequest) -> int | None:
        blocks, hit = self.manager.get_computed_blocks(request)
        allocated = self.manager.allocate_slots(
            request, request.num_tokens - hit, num_new_computed_tokens=hit, new_computed_blocks=blocks
        )
        if allocated is None:
            return None
        request.status = State.RUNNING
        return int(hit)

    def finish(self, request: StandInRequest) -> None:
        request.status = State.FINISHED_STOPPED
        self.manager.free(request)

    def serve(self, name: str, tokens: list[int], **more: Any) -> int | None:
        request = StandInRequest(name, tokens, **more)
        hit = self.admit(request)
        self.finish(request)
        return hit

    def of_kind(self, kind: str) -> list[Any]:
        """Records of one kind, once all events so far are replayed."""
        assert self.recorder.flush()
        return [record for name, record in self.told if name == kind]


class KeepingSink:
    def __init__(self, told: list[tuple[str, Any]]) -> None:
        self._told = told

    def request_finished(self, finished: Any) -> None:
        self._told.append(("request", finished))

    def evicted(self, batch: Any) -> None:
        self._told.append(("evicted", batch))

    def regretted(self, regret: Any) -> None:
        self._told.append(("regret", regret))

    def cache_reset(self, reset: Any) -> None:
        self._told.append(("reset", reset))

    def tick(self, status: Any, totals: Any) -> None:
        pass

    def close(self, deadline_s: float) -> None:
        self._told.append(("closed", deadline_s))


@pytest.fixture
def make_request() -> Callable[..., StandInRequest]:
    """Makes a request: its name, its tokens, and more by keyword."""
    return StandInRequest


@pytest.fixture
def start_engine() -> Iterator[Callable[..., Engine]]:
    """Starts a hooked engine with so many usable blocks."""
    running: list[Engine] = []

    def start(usable: int = 10, sinks: Any = None, usual_sinks: bool = False, **settings: Any) -> Engine:
        switch = Switch()
        told: list[tuple[str, Any]] = []

        def make(shape: CacheShape) -> Recorder:
            if usual_sinks:
                return Recorder(shape, Settings(**settings), switch)
            made = sinks if sinks is not None else [KeepingSink(told)]
            return Recorder(shape, Settings(**settings), switch, sinks=lambda facts, on_error: made)

        hooks = Hooks(switch, make)
        classes = make_classes()
        hooks.hook_manager(classes[0])
        hooks.hook_pool(classes[1])
        group = SimpleNamespace(kv_cache_spec=type("FullAttentionSpec", (), {"block_size": BLOCK_SIZE})())
        manager = classes[0](SimpleNamespace(num_blocks=usable + 1, kv_cache_groups=[group]))
        engine = Engine(manager, hooks, hooks.recorders[0], switch, classes, told)
        running.append(engine)
        return engine

    yield start
    for engine in running:
        engine.hooks.remove()


@pytest.fixture
def outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[dict[str, Any]]]:
    """Records of one kind that the usual sinks wrote."""
    file = tmp_path / "outcomes.jsonl"
    monkeypatch.setenv("HITCURVE_OUTCOME_FILE", str(file))

    def read(kind: str) -> list[dict[str, Any]]:
        return [record for record in map(json.loads, file.read_text().splitlines()) if record["kind"] == kind]

    return read
