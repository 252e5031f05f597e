"""One scheduler step: who runs how many tokens, who is preempted, who is admitted."""

from collections import deque
from collections.abc import Callable, Iterator

from hitcurve_simulator.vllm.manager import CacheManager
from hitcurve_simulator.vllm.outcome import Admission, FinishedRequest, NewToken, ScheduledWork, StepOutcome
from hitcurve_simulator.vllm.request import RequestState
from hitcurve_simulator.vllm.settings import SchedulerSettings

__all__ = ["Step"]


class Step:
    """Works on the scheduler's own queues; used once."""

    def __init__(
        self,
        manager: CacheManager,
        settings: SchedulerSettings,
        waiting: deque[RequestState],
        running: list[RequestState],
    ) -> None:
        self.preempted: list[RequestState] = []
        self._manager = manager
        self._settings = settings
        self._waiting = waiting
        self._running = running
        self._budget = settings.max_num_batched_tokens
        self._scheduled: list[tuple[RequestState, int]] = []
        self._admitted: list[Admission] = []
        self._work: list[ScheduledWork] = []
        self._prefilled: list[str] = []
        self._new_tokens: list[NewToken] = []
        self._deferred_adapters: dict[str, None] = {}

    def schedule(self) -> None:
        """Give tokens to running requests, then admit waiting ones unless something was preempted."""
        self._continue_running()
        if not self.preempted:
            self._admit_waiting()

    def advance(self, next_token: Callable[[RequestState], int]) -> Iterator[RequestState]:
        """Count the scheduled tokens as computed, append a token to each sequence that caught up.

        Yields the requests that reached their last token, one by one; the caller ends each before the next.
        """
        for state, tokens in self._scheduled:
            self._work.append(
                ScheduledWork(
                    request_id=state.request_id,
                    kind="prefill" if state.prefilling else "decode",
                    tokens=tokens,
                    context_tokens=state.computed_tokens,
                )
            )
            state.computed_tokens += tokens
        for state, _ in self._scheduled:
            if state.computed_tokens < state.num_tokens:
                continue
            if state.prefilling:
                state.prefilling = False
                self._prefilled.append(state.request_id)
            token = next_token(state)
            self._new_tokens.append(NewToken(state.request_id, token, state.output_tokens))
            self._manager.append_output(state, (token,))
            if state.output_tokens >= state.request.max_output_tokens:
                yield state

    def outcome(self, finished: tuple[FinishedRequest, ...]) -> StepOutcome:
        """The record of this step, after ``schedule`` and ``advance``."""
        return StepOutcome(
            admitted=tuple(self._admitted),
            work=tuple(self._work),
            prefilled=tuple(self._prefilled),
            new_tokens=tuple(self._new_tokens),
            preempted=tuple(state.request_id for state in self.preempted),
            finished=finished,
            running=len(self._running),
            waiting=len(self._waiting),
            adapters_deferred=tuple(self._deferred_adapters),
        )

    def _continue_running(self) -> None:
        position = 0
        while position < len(self._running) and self._budget > 0:
            state = self._running[position]
            tokens = min(state.num_tokens - state.computed_tokens, self._budget)
            if not self._make_room(state, tokens):
                return
            self._take(state, tokens)
            position += 1

    def _make_room(self, state: RequestState, tokens: int) -> bool:
        """Blocks for a running request; the last running request gives way, at worst the request itself."""
        while not self._manager.allocate(state, tokens):
            victim = self._running.pop()
            self._manager.preempt(victim)
            self._waiting.appendleft(victim)
            self.preempted.append(victim)
            if victim is state:
                return False
        return True

    def _admit_waiting(self) -> None:
        adapters = {state.request.adapter for state, _ in self._scheduled} - {None}
        skipped: list[RequestState] = []
        while self._waiting and self._budget > 0 and len(self._running) < self._settings.max_num_seqs:
            state = self._waiting[0]
            adapter = state.request.adapter
            if self._must_wait_for_adapter(adapter, adapters):
                skipped.append(self._waiting.popleft())
                continue
            if not self._admit(state):
                break
            if adapter is not None:
                adapters.add(adapter)
        self._waiting.extendleft(reversed(skipped))

    def _must_wait_for_adapter(self, adapter: str | None, active: set[str | None]) -> bool:
        limit = self._settings.max_adapters
        if limit is None or adapter is None or adapter in active or len(active) < limit:
            return False
        self._deferred_adapters[adapter] = None
        return True

    def _admit(self, state: RequestState) -> bool:
        manager = self._manager
        found = manager.lookup(state)
        hit_tokens = len(found) * manager.block_size
        wanted = state.num_tokens - hit_tokens
        if wanted > self._budget and not self._settings.enable_chunked_prefill:
            return False
        tokens = min(wanted, self._budget)
        if not manager.admit(state, tokens, found):
            return False
        self._waiting.popleft()
        self._running.append(state)
        self._admitted.append(
            Admission(
                request_id=state.request_id,
                query_tokens=state.num_tokens,
                hit_tokens=hit_tokens,
                skipped_lookup=not manager.may_read(state),
                resumed=state.preemptions > 0,
            )
        )
        state.computed_tokens = hit_tokens
        state.prefilling = True
        state.status = "running"
        self._take(state, tokens)
        return True

    def _take(self, state: RequestState, tokens: int) -> None:
        self._scheduled.append((state, tokens))
        self._budget -= tokens
