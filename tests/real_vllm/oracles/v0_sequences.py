"""Random operations for vLLM V0's block manager, and workloads A to F, with the answers of our rules."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from hitcurve_simulator.vllm import Request, RequestState
from hitcurve_simulator.vllm_v0 import BlockManager
from hitcurve_simulator.workloads import CONCURRENCY, WORKLOADS, workload_rows

__all__ = ["random_runs", "workload_runs"]

ALPHABET = (1, 2, 3)
BLOCK_SIZE = 4
OPERATIONS = 80


class Recorder:
    """Our rules behind the operations of ``vllm_v0_manager.py``; writes down questions and answers."""

    def __init__(self, num_blocks: int, block_size: int, watermark: float) -> None:
        self.settings = {"num_blocks": num_blocks, "block_size": block_size, "watermark": watermark}
        self.manager = BlockManager(num_blocks, block_size, watermark)
        self.manager.pool.on_evicted = lambda block, key: self.evicted.append(block)
        self.states: dict[str, RequestState] = {}
        self.operations: list[list[Any]] = []
        self.answers: list[list[Any]] = []
        self.evicted: list[int] = []

    def play(self, *operation: Any) -> Any:
        name, *arguments = operation
        self.evicted = []
        result = getattr(self, f"_{name}")(*arguments)
        blocks = list(self.states[arguments[0]].blocks) if arguments and arguments[0] in self.states else []
        self.operations.append(list(operation))
        self.answers.append([result, self.evicted, blocks, self.manager.pool.num_free])
        return result

    def run(self, name: str) -> dict[str, Any]:
        free = self.manager.pool.free_order()
        end = ["end", [], free, len(free)]
        return {"name": name, **self.settings, "operations": self.operations, "expected": [*self.answers, end]}

    def _admit(self, request_id: str, prompt: Sequence[int], adapter: str | None, now: float) -> int | None:
        request = Request(request_id, prompt_token_ids=prompt, adapter=adapter)
        self.states[request_id] = self.manager.track(request)
        return self._again(request_id, now)

    def _again(self, request_id: str, now: float) -> int | None:
        state = self.states[request_id]
        hits = self.manager.cached_tokens(state)
        if not self.manager.admit(state):
            return None
        self.manager.access(state, now)
        return hits

    def _append(self, request_id: str, tokens: Sequence[int], now: float) -> bool:
        state = self.states[request_id]
        if not self.manager.can_append(state, len(tokens)):
            state.output_token_ids.extend(tokens)
            state.num_tokens += len(tokens)
            self.manager.append(state, (), 0)
            return False
        self.manager.append(state, tokens, len(tokens))
        self.manager.access(state, now)
        return True

    def _mark(self) -> None:
        self.manager.mark_computed()

    def _preempt(self, request_id: str) -> None:
        self.manager.preempt(self.states[request_id])

    def _free(self, request_id: str) -> None:
        self.manager.finish(self.states.pop(request_id))

    def _reset(self) -> bool:
        return self.manager.reset()


class Writer:
    """Makes up operations as it plays them on our rules; steps of one moment share a time and one mark."""

    def __init__(self, dice: random.Random, recorder: Recorder) -> None:
        self.dice, self.recorder = dice, recorder
        self.running: list[str] = []
        self.preempted: list[str] = []
        self.prompts: list[list[int]] = []
        self.now = 1.0

    def write(self) -> None:
        for number in range(OPERATIONS):
            if self.dice.random() < 0.6:
                self.recorder.play("mark")
                self.now += 1.0
            kind = self.dice.choices(("admit", "append", "free", "preempt", "reset"), (32, 36, 20, 6, 4))[0]
            if kind == "admit":
                self._admit(f"r{number}")
            elif kind == "append" and self.running:
                self._append(self.dice.choice(self.running))
            elif kind in ("free", "preempt") and self.running:
                self._leave(kind)
            elif kind == "reset":
                while self.dice.random() < 0.6 and self.running:
                    self._leave("free")
                self.recorder.play("reset")

    def _admit(self, request_id: str) -> None:
        play = self.recorder.play
        if self.preempted and self.dice.random() < 0.5:
            request_id = self.preempted.pop(0)
            hits = play("again", request_id, self.now)
            (self.preempted if hits is None else self.running).append(request_id)
            return
        adapter = self.dice.choice((None, None, "a", "b"))
        if play("admit", request_id, self._prompt(), adapter, self.now) is not None:
            self.running.append(request_id)

    def _append(self, request_id: str) -> None:
        tokens = self.dice.choices(ALPHABET, k=self.dice.choice((1, 1, 1, 2, 6)))
        if not self.recorder.play("append", request_id, tokens, self.now):
            self.running.remove(request_id)
            self.recorder.play("preempt", request_id)
            self.preempted.append(request_id)
            self.now += 1.0

    def _leave(self, kind: str) -> None:
        request_id = self.running.pop(self.dice.randrange(len(self.running)))
        self.recorder.play(kind, request_id)
        # No block is freed twice at one time: V0 itself then takes its old content for the new one and fails.
        self.now += 1.0
        if kind == "preempt":
            self.preempted.append(request_id)

    def _prompt(self) -> list[int]:
        start: list[int] = []
        if self.prompts and self.dice.random() < 0.75:
            start = self.dice.choice(self.prompts)
            start = start[: self.dice.randint(0, len(start))] if self.dice.random() < 0.6 else start
        prompt = start + self.dice.choices(ALPHABET, k=self.dice.randint(0 if start else 1, 40))
        self.prompts.append(prompt)
        return prompt


def random_runs(first_seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Sequences with the answers we expect."""
    for seed in range(first_seed, first_seed + count):
        dice = random.Random(seed)
        recorder = Recorder(dice.randint(6, 40), BLOCK_SIZE, dice.choice((0.0, 0.01, 0.1)))
        Writer(dice, recorder).write()
        yield recorder.run(f"seed {seed}")


def workload_runs(seed: int) -> Iterator[dict[str, Any]]:
    """Workloads A to F: eight requests at once, each admitted with its prompt, its output appended at the end."""
    for name, workload in WORKLOADS.items():
        recorder = Recorder((workload.pool_tokens or 400_000) // 16, 16, 0.0)
        in_flight: list[Any] = []
        for now, row in enumerate(workload_rows(name, seed)):
            busy = [other for other in in_flight if row.session is not None and other.session == row.session]
            while len(in_flight) >= CONCURRENCY or any(other in in_flight for other in busy):
                _end(recorder, in_flight.pop(0), 2.0 * now)
            while recorder.play("admit", row.request.request_id, _prompt(row), None, 2.0 * now + 1) is None:
                _end(recorder, in_flight.pop(0), 2.0 * now)
            recorder.play("mark")
            in_flight.append(row)
        for row in in_flight:
            _end(recorder, row, 1e6)
        yield recorder.run(f"workload {name}")


def _prompt(row: Any) -> list[int]:
    return list(row.request.prompt_token_ids)


def _end(recorder: Recorder, row: Any, now: float) -> None:
    request_id = row.request.request_id
    computed = list(row.output_token_ids)[:-1]
    if computed and not recorder.play("append", request_id, computed, now):
        raise AssertionError(f"{request_id}: the pool of a workload has room for what runs")
    recorder.play("mark")
    recorder.play("free", request_id)
