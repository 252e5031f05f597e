"""Random operations for vLLM's KV cache manager, and workloads A to F, with the answers of our rules."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from hitcurve_simulator.simulate.fifo_replay import FifoReplay
from hitcurve_simulator.simulate.vllm_requests import VllmRequests
from hitcurve_simulator.vllm import CacheManager, Request, RequestState, VllmRules, rules_of_version
from hitcurve_simulator.workloads import CONCURRENCY, WORKLOADS, workload_rows

__all__ = ["OperationWriter", "OurManager", "features_of", "random_runs", "workload_runs"]

OPERATIONS = 80
BLOCK_SIZE = 4
ALPHABET = (1, 2, 3)
SALTS_SINCE = (0, 9)
EXTERNAL_SINCE = (0, 12)

Answer = list[Any]


class OurManager:
    """Our rules behind the operations of ``vllm_v1_manager.py``."""

    def __init__(self, num_blocks: int, block_size: int, rules: VllmRules, eagle: bool = False) -> None:
        self.manager = CacheManager(num_blocks, block_size, rules, drops_last_hit_block=eagle)
        self.states: dict[str, RequestState] = {}
        self.pool = self.manager.pool
        self.evicted: list[int] = []
        self.pool.on_evicted = lambda block, key, gone: self.evicted.append(block)

    def play(self, operation: Sequence[Any]) -> Answer:
        name, *arguments = operation
        self.evicted = []
        result = getattr(self, name)(*arguments)
        held = self.states[arguments[0]].blocks if arguments and name != "free" else []
        return [result, self.evicted, list(held)]

    def end(self) -> Answer:
        counted = self.manager.statistics
        return ["end", [], list(self.pool.free_queue), [counted.requests, counted.queries, counted.hits]]

    def admit(
        self,
        request_id: str,
        prompt: list[int],
        chunk: int,
        lookahead: int,
        adapter: str | None,
        salt: str | None,
        skip: bool,
        external: int = 0,
    ) -> int | None:
        request = Request(
            request_id,
            prompt_token_ids=prompt,
            adapter=adapter,
            adapter_path=f"/{adapter}",
            cache_salt=salt,
            skip_reading_prefix_cache=skip,
        )
        self.states[request_id] = self.manager.track(request)
        return self._admit(request_id, chunk, lookahead, external)

    def again(self, request_id: str, chunk: int) -> int | None:
        return self._admit(request_id, chunk, 0)

    def compute(self, request_id: str, tokens: int) -> bool:
        state = self.states[request_id]
        if not self.manager.allocate(state, tokens):
            return False
        state.computed_tokens += tokens
        return True

    def append(self, request_id: str, tokens: list[int]) -> None:
        self.manager.append_output(self.states[request_id], tokens)

    def preempt(self, request_id: str) -> None:
        self.manager.preempt(self.states[request_id])

    def free(self, request_id: str) -> None:
        self.manager.finish(self.states.pop(request_id))

    def reset(self) -> bool:
        return self.manager.reset_prefix_cache()

    def _admit(self, request_id: str, chunk: int, lookahead: int, external: int = 0) -> int | None:
        state = self.states[request_id]
        found = self.manager.lookup(state)
        hits = len(found) * self.manager.block_size
        # A connector brings whole tokens that are not here, and never the last one.
        external = max(min(external, state.num_tokens - hits - 1), 0)
        tokens = min(chunk, state.num_tokens - hits - external)
        if not self.manager.admit(state, tokens, found, lookahead, external):
            return None
        state.computed_tokens = hits + external + tokens
        return hits


class OperationWriter:
    """Makes up operations as it plays them on our rules; knows which make sense by our answers."""

    def __init__(self, seed: int, rules: VllmRules, salts: bool) -> None:
        self.dice = random.Random(seed)
        self.num_blocks = self.dice.randint(6, 40)
        self.salts = (None, None, None, "salt") if salts else (None,)
        self.eagle = self.dice.random() < 0.25
        self.external = (0, 0, 0, 4, 7, 16) if rules.number >= EXTERNAL_SINCE else (0,)
        self.ours = OurManager(self.num_blocks, BLOCK_SIZE, rules, self.eagle)
        self.operations: list[list[Any]] = []
        self.answers: list[Answer] = []
        self.running: list[str] = []
        self.preempted: list[str] = []
        self.prompts: list[list[int]] = []

    def write(self) -> None:
        for number in range(OPERATIONS):
            kind = self.dice.choices(("admit", "grow", "free", "preempt", "reset"), (30, 40, 20, 6, 4))[0]
            if kind == "admit":
                self._admit(f"r{number}")
            elif kind == "grow" and self.running:
                self._grow(self.dice.choice(self.running))
            elif kind == "free" and self.running:
                self._leave("free", self.running)
            elif kind == "preempt" and self.running:
                self.preempted.append(self._leave("preempt", self.running))
            elif kind == "reset":
                while self.dice.random() < 0.5 and self.running:
                    self._leave("free", self.running)
                self._play(["reset"])
        self.answers.append(self.ours.end())

    def _admit(self, request_id: str) -> None:
        if self.preempted and self.dice.random() < 0.5:
            request_id = self.preempted.pop(0)
            operation = ["again", request_id, self._chunk()]
        else:
            operation = [
                "admit",
                request_id,
                self._prompt(),
                self._chunk(),
                self.dice.choice((0, 0, 0, 3, 9)),
                self.dice.choice((None, None, "a", "b")),
                self.dice.choice(self.salts),
                self.dice.random() < 0.1,
                self.dice.choice(self.external),
            ]
        if self._play(operation)[0] is not None:
            self.running.append(request_id)
        elif operation[0] == "again":
            self.preempted.append(request_id)

    def _grow(self, request_id: str) -> None:
        state = self.ours.states[request_id]
        if state.computed_tokens < state.num_tokens:
            tokens = min(self._chunk(), state.num_tokens - state.computed_tokens)
            if not self._play(["compute", request_id, tokens])[0]:
                self.running.remove(request_id)
                self._play(["preempt", request_id])
                self.preempted.append(request_id)
            return
        self._play(["append", request_id, self.dice.choices(ALPHABET, k=self.dice.choice((1, 1, 1, 2, 7)))])

    def _leave(self, name: str, queue: list[str]) -> str:
        request_id = queue.pop(self.dice.randrange(len(queue)))
        self._play([name, request_id])
        return request_id

    def _prompt(self) -> list[int]:
        """A prompt seen before, a branch off one, or a new one: prefixes are shared a lot."""
        start: list[int] = []
        if self.prompts and self.dice.random() < 0.75:
            start = self.dice.choice(self.prompts)
            start = start[: self.dice.randint(0, len(start))] if self.dice.random() < 0.6 else start
        most = (self.num_blocks + 2) * BLOCK_SIZE - len(start)
        prompt = start + self.dice.choices(ALPHABET, k=self.dice.randint(0 if start else 1, max(min(most, 40), 1)))
        self.prompts.append(prompt)
        return prompt

    def _chunk(self) -> int:
        return self.dice.choice((1, 5, 8, 1000, 1000))

    def _play(self, operation: list[Any]) -> Answer:
        answer = self.ours.play(operation)
        self.operations.append(operation)
        self.answers.append(answer)
        return answer


class RecordingManager:
    """Stands where a replay has its manager, and writes down what the replay asks of it."""

    def __init__(self, num_blocks: int, block_size: int, rules: VllmRules) -> None:
        self.ours = OurManager(num_blocks, block_size, rules)
        self.block_size = block_size
        self.pool = self.ours.pool
        self.operations: list[list[Any]] = []
        self.answers: list[Answer] = []

    def track(self, request: Request) -> RequestState:
        return RequestState(request)

    def lookup(self, state: RequestState) -> list[int]:
        return []

    def admit(self, state: RequestState, tokens: int, found: Sequence[int], lookahead: int) -> bool:
        prompt = list(state.request.prompt_token_ids or ())
        answer = self._play(["admit", state.request_id, prompt, tokens, lookahead, None, None, False])
        state.hit_tokens = answer[0]
        return state.hit_tokens is not None

    def append_output(self, state: RequestState, token_ids: Sequence[int]) -> None:
        self._play(["append", state.request_id, list(token_ids)])

    def allocate(self, state: RequestState, tokens: int) -> bool:
        return bool(self._play(["compute", state.request_id, tokens])[0])

    def finish(self, state: RequestState) -> None:
        self._play(["free", state.request_id])

    def _play(self, operation: list[Any]) -> Answer:
        answer = self.ours.play(operation)
        self.operations.append(operation)
        self.answers.append(answer)
        return answer


def random_runs(version: str, first_seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Sequences with the answers we expect of a version."""
    rules = rules_of_version(version)
    for seed in range(first_seed, first_seed + count):
        writer = OperationWriter(seed, rules, salts=rules.number >= SALTS_SINCE)
        writer.write()
        yield _run(f"seed {seed}", writer.num_blocks, BLOCK_SIZE, writer)


def workload_runs(version: str, seed: int) -> Iterator[dict[str, Any]]:
    """Workloads A to F as a replay asks for them."""
    for name, workload in WORKLOADS.items():
        num_blocks = (workload.pool_tokens or 400_000) // 16 + 1
        recording = RecordingManager(num_blocks, 16, rules_of_version(version))
        rules = VllmRequests(recording, outputs=True)  # type: ignore[arg-type]
        replay = FifoReplay(rules, CONCURRENCY, outputs=True)
        for row in workload_rows(name, seed):
            replay.serve(row)
        replay.drain()
        recording.answers.append(recording.ours.end())
        yield _run(f"workload {name}", num_blocks, 16, recording)


def _run(name: str, num_blocks: int, block_size: int, recorder: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_blocks": num_blocks,
        "block_size": block_size,
        "operations": recorder.operations,
        "expected": recorder.answers,
        "eagle": recorder.ours.manager.drops_last_hit_block,
        "features": features_of(recorder.operations, recorder.ours.manager.drops_last_hit_block),
    }


def features_of(operations: list[list[Any]], eagle: bool) -> list[str]:
    """What of the admissions a count is kept of."""
    admits = [operation for operation in operations if operation[0] == "admit"]
    features = ["runs with EAGLE"] if eagle else []
    features += ["adapters" for operation in admits if operation[5]]
    features += ["salts" for operation in admits if operation[6]]
    features += ["skipping the cache" for operation in admits if operation[7]]
    return features + ["external tokens" for operation in admits if operation[8:] > [0]]
