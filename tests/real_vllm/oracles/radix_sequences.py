"""Random operations for SGLang's radix cache, and workloads A to F, with the answers of our rules."""

import random
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from hitcurve_simulator.sglang import POLICIES, Core, Namespace, Policy, RadixCache, RadixRequest
from hitcurve_simulator.simulate.fifo_replay import FifoReplay
from hitcurve_simulator.simulate.sglang_requests import SglangRequests
from hitcurve_simulator.vllm import Request, RequestState
from hitcurve_simulator.workloads import CONCURRENCY, WORKLOADS, workload_rows

__all__ = ["random_runs", "workload_runs"]

ALPHABET = (1, 2, 3)
OPERATIONS = 70
PAGE_SIZES = (1, 1, 2, 4, 16)


class Recorder:
    """Our rules behind the operations of ``sglang_cache.py``; writes down what it was asked and what it said."""

    def __init__(self, num_pages: int, page_size: int, policy: Policy, core: Core) -> None:
        self.cache = RadixCache(num_pages, page_size, policy, core, observer=self)
        self.page_size = page_size
        self.states: dict[str, RadixRequest] = {}
        self.fingerprints: dict[Any, int] = {}
        self.operations: list[list[Any]] = []
        self.answers: list[list[Any]] = []
        self.evicted_keys: list[Any] = []

    def play(self, *operation: Any) -> Any:
        name, *arguments = operation
        self.evicted_keys = []
        result = getattr(self, f"_{name}")(*arguments)
        cache = self.cache
        evicted = [self.fingerprints[key] for key in self.evicted_keys]
        self.operations.append(list(operation))
        self.answers.append([result, evicted, cache.free_pages, cache.evictable_pages, cache.locked_pages])
        return result

    def _start(
        self,
        request_id: str,
        prompt: Sequence[int],
        chunk: int,
        room: int,
        adapter: str | None,
        salt: str | None,
        extra_key: str | None,
        priority: int,
        skip: bool,
    ) -> int | None:
        request = Request(
            request_id, prompt_token_ids=prompt, adapter=adapter, cache_salt=salt, skip_reading_prefix_cache=skip
        )
        state = self.states[request_id] = self.cache.track(request, extra_key, priority)
        return self._admit(state, chunk, room)

    def _again(self, request_id: str, chunk: int) -> int | None:
        return self._admit(self.states[request_id], chunk, 0)

    def _admit(self, state: RadixRequest, chunk: int, room: int) -> int | None:
        self.hits = 0
        return self.hits if self.cache.start(state, chunk, room) else None

    def _grow(self, request_id: str, tokens: int, decoding: bool) -> bool:
        return self.cache.grow(self.states[request_id], tokens, decoding)

    def _append(self, request_id: str, tokens: Sequence[int]) -> None:
        self.cache.append_output(self.states[request_id], tokens)

    def _use_room(self, request_id: str, tokens: int) -> None:
        self.cache.use_room(self.states[request_id], tokens)

    def _checkpoint(self, request_id: str) -> None:
        self.cache.checkpoint(self.states[request_id])

    def _finish(self, request_id: str) -> None:
        self.cache.finish(self.states.pop(request_id))

    def _abort(self, request_id: str) -> None:
        self.cache.release(self.states.pop(request_id))

    def _retract(self, request_id: str) -> None:
        self.cache.retract(self.states[request_id])

    def _room(self, tokens: int) -> None:
        self.cache.make_room(tokens)

    def _reset(self) -> bool:
        return self.cache.reset()

    # What the cache tells its observer.

    def looked_up(self, state: RequestState, hit_tokens: int) -> None:
        pass

    def scheduled(self, state: RequestState, hit_tokens: int) -> None:
        self.hits = hit_tokens

    def stored(self, state: RequestState, first_block: int, end_block: int) -> None:
        assert isinstance(state, RadixRequest)
        tokens = array("q", [*(state.request.prompt_token_ids or ()), *state.output_token_ids])
        value = zlib.crc32(repr(state.namespace.tree_key).encode())
        for page in range(end_block):
            value = zlib.crc32(tokens[page * self.page_size : (page + 1) * self.page_size].tobytes(), value)
            self.fingerprints[state.keys[page]] = value

    def evicted(self, key: Any, gone: bool, request_id: str) -> None:
        self.evicted_keys.append(key)

    def preempted(self, state: RequestState) -> None:
        pass

    def finished(self, state: RequestState) -> None:
        pass

    def reset(self, done: bool) -> None:
        pass


class Writer:
    """Makes up operations as it plays them on our rules; knows which make sense by our answers."""

    def __init__(self, dice: random.Random, recorder: Recorder) -> None:
        self.dice, self.recorder = dice, recorder
        self.running: list[str] = []
        self.retracted: list[str] = []
        self.prompts: list[list[int]] = []

    def write(self) -> None:
        for number in range(OPERATIONS):
            kinds = ("start", "grow", "finish", "abort", "retract", "room", "reset")
            kind = self.dice.choices(kinds, (30, 40, 18, 3, 5, 2, 2))[0]
            if kind == "start" and len(self.running) < 20:
                self._start(f"r{number}")
            elif kind == "grow" and self.running:
                self._grow(self.dice.choice(self.running))
            elif kind in ("finish", "abort", "retract") and self.running:
                self._leave(kind)
            elif kind == "room":
                self.recorder.play("room", self.dice.randint(1, 40))
            elif kind == "reset":
                while self.dice.random() < 0.6 and self.running:
                    self._leave("finish")
                self.recorder.play("reset")

    def _start(self, request_id: str) -> None:
        if self.retracted and self.dice.random() < 0.5:
            request_id = self.retracted.pop(0)
            hits = self.recorder.play("again", request_id, self._chunk())
            (self.retracted if hits is None else self.running).append(request_id)
            return
        pick = self.dice.choice
        namespace = (
            pick((None, None, "a", "b", "ab")),
            pick((None, None, None, "salt")),
            pick((None, None, "a", "")),
        )
        chunk, room, priority = self._chunk(), pick((0, 0, 0, 5)), pick((0, 0, 1, 5))
        hits = self.recorder.play(
            "start", request_id, self._prompt(), chunk, room, *namespace, priority, self.dice.random() < 0.1
        )
        if hits is not None:
            self.running.append(request_id)

    def _grow(self, request_id: str) -> None:
        """What comes next for a request: its chunk is computed, another one starts, or a token is decoded."""
        play, state = self.recorder.play, self.recorder.states[request_id]
        play("checkpoint", request_id)
        decoding = state.computed_tokens == state.num_tokens
        if decoding:
            play("append", request_id, self.dice.choices(ALPHABET, k=1))
        tokens = 1 if decoding else min(self._chunk(), state.num_tokens - state.computed_tokens)
        if not play("grow", request_id, tokens, decoding):
            self.running.remove(request_id)
            play("retract", request_id)
            self.retracted.append(request_id)

    def _leave(self, kind: str) -> None:
        request_id = self.running.pop(self.dice.randrange(len(self.running)))
        self.recorder.play(kind, request_id)
        if kind == "retract":
            self.retracted.append(request_id)

    def _prompt(self) -> list[int]:
        """A prompt seen before, a branch off one, or a new one: prefixes are shared a lot."""
        start: list[int] = []
        if self.prompts and self.dice.random() < 0.75:
            start = self.dice.choice(self.prompts)
            start = start[: self.dice.randint(0, len(start))] if self.dice.random() < 0.6 else start
        size = self.recorder.page_size
        prompt = start + self.dice.choices(ALPHABET, k=self.dice.randint(0 if start else 1, 12 * max(size, 2)))
        self.prompts.append(prompt)
        return prompt

    def _chunk(self) -> int:
        return self.dice.choice((1, 5, 8, 20, 1000, 1000))


def random_runs(core: str, first_seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Sequences with the answers we expect; ``core`` is legacy, python or rust."""
    for seed in range(first_seed, first_seed + count):
        dice = random.Random(seed)
        page_size, policy = dice.choice(PAGE_SIZES), dice.choice(POLICIES)
        num_pages = dice.randint(6, 60) * (4 if page_size == 1 else 1)
        recorder = Recorder(num_pages, page_size, policy, "legacy" if core == "legacy" else "unified")
        Writer(dice, recorder).write()
        yield _run(f"seed {seed}, page {page_size}, {policy}", core, policy, recorder)


def workload_runs(core: str, seed: int) -> Iterator[dict[str, Any]]:
    """Workloads A to F at pages of 1 and 16 tokens."""
    for name, workload in WORKLOADS.items():
        for page_size in (1, 16):
            pages = (workload.pool_tokens or 400_000) // page_size
            recorder = Recorder(pages, page_size, "lru", "legacy" if core == "legacy" else "unified")
            rules = SglangRequests(RecordingCache(recorder), outputs=True)  # type: ignore[arg-type]
            replay = FifoReplay(rules, CONCURRENCY, outputs=True)
            for row in workload_rows(name, seed):
                replay.serve(row)
            replay.drain()
            yield _run(f"workload {name}, page {page_size}", core, "lru", recorder)


class RecordingCache:
    """Stands where a replay has its cache, and writes down what the replay asks of it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.page_size = recorder.page_size

    def track(self, request: Request, extra_key: str | None = None) -> RadixRequest:
        return RadixRequest(request, Namespace(extra_key), 0)

    def start(self, state: RadixRequest, tokens: int, room: int) -> bool:
        prompt = list(state.request.prompt_token_ids or ())
        self.recorder.play("start", state.request_id, prompt, tokens, room, None, None, None, 0, False)
        state.hit_tokens = self.recorder.answers[-1][0]
        return state.hit_tokens is not None

    def __getattr__(self, name: str) -> Any:
        return lambda state, *arguments: self.recorder.play(name, state.request_id, *arguments)

    def append_output(self, state: RadixRequest, token_ids: Sequence[int]) -> None:
        self.recorder.play("append", state.request_id, list(token_ids))


def _run(name: str, core: str, policy: str, recorder: Recorder) -> dict[str, Any]:
    return {
        "name": name,
        "core": core,
        "policy": policy,
        "num_pages": recorder.cache.num_pages,
        "page_size": recorder.page_size,
        "operations": recorder.operations,
        "expected": recorder.answers,
        "features": _features(policy, recorder),
    }


def _features(policy: str, recorder: Recorder) -> list[str]:
    """The policy and page size of a run, and what its requests have that keeps them apart."""
    starts = [operation for operation in recorder.operations if operation[0] == "start"]
    features = [f"policy {policy}", f"page {recorder.page_size}"]
    for place, name in ((5, "adapters"), (6, "salts"), (7, "extra keys"), (9, "skipping the cache")):
        features += [name for operation in starts if operation[place]]
    return features
