"""vLLM V1's scheduler for one full-attention group (``vllm/v1/core/sched/scheduler.py``), step by step.

A step gives tokens of a budget to the running requests in order, preempting the last one when blocks are
missing, and then, unless it preempted, admits waiting requests. There is no prefill or decode phase: each
request catches up with its sequence. Blocks are registered as soon as they are scheduled, so equal prompts
admitted in the same step hit each other. Synchronous scheduling; no speculative decoding, no KV connector,
no priorities.
"""

from collections import deque
from collections.abc import Callable, Sequence

from hitcurve_simulator.vllm.manager import CacheManager
from hitcurve_simulator.vllm.outcome import FinishedRequest, FinishReason, StepOutcome
from hitcurve_simulator.vllm.request import Request, RequestState
from hitcurve_simulator.vllm.settings import SchedulerSettings
from hitcurve_simulator.vllm.step import Step

__all__ = ["RequestRejected", "Scheduler", "TokenSource"]

TokenSource = Callable[[RequestState], int]
"""The model: the next token of a sequence that is computed so far."""


class RequestRejected(ValueError):
    """The request can never run; the message says why."""


class Scheduler:
    """Waiting and running requests over one cache manager.

    ``add`` requests, call ``step`` until ``has_requests`` is False. Not thread-safe.
    """

    def __init__(
        self,
        manager: CacheManager,
        settings: SchedulerSettings | None = None,
        next_token: TokenSource = lambda state: 0,
    ) -> None:
        self.manager = manager
        self.settings = settings or SchedulerSettings()
        self.next_token = next_token
        self.preemptions = 0
        """Preemptions since start."""
        self._states: dict[str, RequestState] = {}
        self._waiting: deque[RequestState] = deque()
        self._running: list[RequestState] = []

    @property
    def waiting(self) -> Sequence[RequestState]:
        """Requests without blocks, in the order in which they are admitted."""
        return self._waiting

    @property
    def running(self) -> Sequence[RequestState]:
        """Requests that hold blocks, in the order of their admission."""
        return self._running

    @property
    def has_requests(self) -> bool:
        """Whether any request is unfinished."""
        return bool(self._states)

    def state_of(self, request_id: str) -> RequestState | None:
        """State of an unfinished request."""
        return self._states.get(request_id)

    def add(self, request: Request) -> RequestState:
        """Queue a request. Raises RequestRejected where it can never run, ValueError for an id in use."""
        if request.request_id in self._states:
            raise ValueError(f"request id '{request.request_id}' is in use")
        if (reason := self.reason_to_reject(request)) is not None:
            raise RequestRejected(reason)
        state = self.manager.track(request)
        self._states[request.request_id] = state
        self._waiting.append(state)
        return state

    def reason_to_reject(self, request: Request) -> str | None:
        """Why the request can never run; None where it can."""
        if request.prompt_tokens < 1:
            return "the prompt is empty"
        if request.max_output_tokens < 1:
            return "at least one output token must be asked for"
        total = request.prompt_tokens + request.max_output_tokens
        longest = self.settings.max_model_len
        if longest is not None and total > longest:
            return f"prompt and output are {total} tokens, the longest sequence is {longest}"
        needed, usable = self.manager.blocks_for(total - 1), self.manager.usable_blocks
        if usable is not None and needed > usable:
            return f"needs {needed} blocks, pool has {usable}"
        if (
            not self.settings.enable_chunked_prefill
            and request.prompt_tokens > self.settings.max_num_batched_tokens
        ):
            return "the prompt exceeds the token budget of a step and chunked prefill is off"
        return None

    def step(self) -> StepOutcome:
        """One forward pass: schedule, compute, append tokens, finish what is done."""
        step = Step(self.manager, self.settings, self._waiting, self._running)
        step.schedule()
        self.preemptions += len(step.preempted)
        finished = []
        for state in step.advance(self.next_token):
            finished.append(self._end(state, "length"))
        return step.outcome(tuple(finished))

    def finish(self, request_id: str, reason: FinishReason = "abort") -> FinishedRequest | None:
        """End a request between two steps: a client that left, a stop string. None where it is unknown."""
        state = self._states.get(request_id)
        return None if state is None else self._end(state, reason)

    def reset_prefix_cache(self, preempt_running: bool = False) -> bool:
        """Drop every hash; refused (False) while a request holds blocks, unless those are preempted first."""
        if preempt_running:
            while self._running:
                state = self._running.pop()
                self.manager.preempt(state)
                self.preemptions += 1
                self._waiting.appendleft(state)
        return self.manager.reset_prefix_cache()

    def _end(self, state: RequestState, reason: FinishReason) -> FinishedRequest:
        if state.status == "running":
            self._running.remove(state)
        else:
            self._waiting.remove(state)
        del self._states[state.request_id]
        self.manager.finish(state)
        return FinishedRequest(
            request_id=state.request_id,
            reason=reason,
            prompt_tokens=state.prompt_tokens,
            output_tokens=state.output_tokens,
            hit_tokens=state.hit_tokens,
        )
