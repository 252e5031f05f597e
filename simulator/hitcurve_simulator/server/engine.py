"""The engine loop: runs scheduler steps, lets each take its modelled time, hands out what was generated.

A step is atomic: blocks are taken and given back when it starts, tokens are handed out when its time is over.
Adding and aborting happen at once, a reset between two steps, as in vLLM.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from hitcurve_simulator.server.block_memory import BlockMemory, misread
from hitcurve_simulator.server.clock import Clock
from hitcurve_simulator.server.sequence import Sequence
from hitcurve_simulator.server.time_model import TimeModel
from hitcurve_simulator.vllm import RequestState, Scheduler, StepOutcome

__all__ = ["Engine", "EngineFailed", "EngineRecorder"]

_MOST_LAG_S = 0.25
"""How far the loop may run behind before it gives up catching up, so that a pause is no burst of free steps."""
_IDLE_STEP_S = 0.001

logger = logging.getLogger(__name__)


class EngineFailed(RuntimeError):
    """The engine loop has ended by an error; nothing runs any more."""


class EngineRecorder(Protocol):
    """Who counts; told in order."""

    def stepped(self, outcome: StepOutcome, scheduler: Scheduler) -> None: ...

    def generated(self, sequence: Sequence, tokens: int, now_s: float) -> None:
        """Tokens are handed out; ``sequence`` still has the times from before."""

    def finished(self, sequence: Sequence, now_s: float) -> None: ...

    def preempted(self, requests: int) -> None:
        """A reset preempted running requests, outside any step."""

    def reset(self) -> None:
        """The prefix cache was cleared."""


class Replies:
    """The model: the next token of each sequence is the one its reply was written with.

    Where the blocks a sequence reads do not hold its own prompt, the reply goes on from what they do hold.
    """

    def __init__(self) -> None:
        self.sequences: dict[str, Sequence] = {}
        self.memory: BlockMemory | None = None

    def __call__(self, state: RequestState) -> int:
        sequence = self.sequences[state.request_id]
        memory = self.memory
        if memory is not None and not sequence.misread and sequence.read_after != memory.written:
            sequence.read_after = memory.written
            wrong = memory.wrong(state)
            if wrong is not None:
                sequence.misread = True
                sequence.reply = misread(sequence.reply, state.output_tokens, wrong)
        return sequence.reply[state.output_tokens]


class Engine:
    """Sequences over one scheduler. Lives in one event loop; start it by running ``run`` as a task."""

    def __init__(
        self,
        build_scheduler: Callable[[Callable[[RequestState], int]], Scheduler],
        time_model: TimeModel,
        clock: Clock,
        recorder: EngineRecorder,
    ) -> None:
        self._replies = Replies()
        self.scheduler = build_scheduler(self._replies)
        manager = self.scheduler.manager
        if manager.observer is None:
            manager.observer = self._replies.memory = BlockMemory(manager.block_size)
        self.clock = clock
        self.failed = False
        """The loop ended by an error: nothing is served any more."""
        self._time_model = time_model
        self._recorder = recorder
        self._wake = asyncio.Event()
        self._between_steps: list[Callable[[], None]] = []
        self._busy_until = clock.monotonic()

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence. Raises RequestRejected where it can never run, EngineFailed after a failure."""
        if self.failed:
            raise EngineFailed("the engine loop has ended")
        self.scheduler.add(sequence.request)
        self._replies.sequences[sequence.request.request_id] = sequence
        self._wake.set()

    def abort(self, sequence: Sequence) -> None:
        """The client is gone: free its blocks now. Nothing happens to a finished sequence.

        As in vLLM, nobody counts it: it appears in no request metric.
        """
        if self.scheduler.finish(sequence.request.request_id, "abort") is not None:
            sequence.finished = "abort"
            self._replies.sequences.pop(sequence.request.request_id, None)

    async def reset_prefix_cache(self, preempt_running: bool = False) -> bool:
        """Clear the cache at the next step boundary; False where requests hold blocks.

        Raises EngineFailed after a failure.
        """
        if self.failed:
            raise EngineFailed("the engine loop has ended")
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def reset() -> None:
            before = self.scheduler.preemptions
            done = self.scheduler.reset_prefix_cache(preempt_running)
            self._preempted_by_reset(self.scheduler.preemptions - before)
            if done:
                self._recorder.reset()
            if not answer.done():
                answer.set_result(done)

        self._between_steps.append(reset)
        self._wake.set()
        return await answer

    async def run(self) -> None:
        """Step for ever. An error in a step ends the engine: every request fails, ``failed`` stays True."""
        try:
            while True:
                await self._once()
        except Exception:
            logger.exception("the engine loop ended")
            self.failed = True
            for sequence in list(self._replies.sequences.values()):
                self._end(sequence, "error")

    async def _once(self) -> None:
        for operation in self._between_steps:
            operation()
        self._between_steps.clear()
        if not self.scheduler.has_requests:
            self._wake.clear()
            await self._wake.wait()
            self._busy_until = self.clock.monotonic()
            return
        await self._step()

    async def _step(self) -> None:
        now = self.clock.monotonic()
        outcome = self.scheduler.step()
        self._note_scheduled(outcome, now)
        self._busy_until = max(self._busy_until, now - _MOST_LAG_S) + self._step_seconds(outcome)
        await self.clock.sleep_until(self._busy_until)
        self._recorder.stepped(outcome, self.scheduler)
        self._hand_out(outcome, self.clock.monotonic())

    def _step_seconds(self, outcome: StepOutcome) -> float:
        seconds = self._time_model.step_s((work.tokens, work.context_tokens) for work in outcome.work)
        return seconds or _IDLE_STEP_S

    def _note_scheduled(self, outcome: StepOutcome, now: float) -> None:
        sequences = self._replies.sequences
        for request_id in outcome.preempted:
            sequences[request_id].preemptions += 1
        for admission in outcome.admitted:
            sequence = sequences[admission.request_id]
            if sequence.scheduled_s is None:
                sequence.scheduled_s = now
                sequence.hit_tokens = 0 if admission.skipped_lookup else admission.hit_tokens

    def _hand_out(self, outcome: StepOutcome, now: float) -> None:
        sequences = self._replies.sequences
        ended = {finished.request_id for finished in outcome.finished}
        for token in outcome.new_tokens:
            sequence = sequences.get(token.request_id)
            if sequence is None:
                continue
            self._recorder.generated(sequence, 1, now)
            sequence.delivered += 1
            sequence.last_token_s = now
            if sequence.first_token_s is None:
                sequence.first_token_s = now
            if token.request_id in ended:
                self._end(sequence, sequence.own_reason, new_tokens=1)
            else:
                sequence.listener(sequence, 1)

    def _end(self, sequence: Sequence, reason: str, new_tokens: int = 0) -> None:
        sequence.finished = reason
        del self._replies.sequences[sequence.request.request_id]
        self._recorder.finished(sequence, self.clock.monotonic())
        sequence.listener(sequence, new_tokens)

    def _preempted_by_reset(self, count: int) -> None:
        if count:
            self._recorder.preempted(count)
            for state in list(self.scheduler.waiting)[:count]:
                self._replies.sequences[state.request_id].preemptions += 1
