"""An engine kept busy: unique long prompts, some of which are computed at every moment of a block."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from hitcurve_chaos.probe import ProbeAnswer
from hitcurve_chaos.scenarios.scenario import Bench

__all__ = ["Others", "kept_busy"]

_LONGEST_TOKENS = 1500
_SHARE = 0.5
_MOST_S = 60.0


@dataclass(frozen=True, slots=True)
class Others:
    """The requests that keep the engine busy: their answers so far."""

    answers: list[ProbeAnswer] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def send_no_more(self) -> None:
        """Let those in flight end."""
        self._ended.set()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()


@contextmanager
def kept_busy(bench: Bench, at_once: int, *, beside_tokens: int = 0) -> Iterator[Others]:
    """Keep ``at_once`` prompts in flight until the block is left or no more are to be sent.

    Prompts rather than long answers: computing one is a long step that brings few tokens. A stream of quick tokens
    occupies vLLM's API server so much that its calls and metrics come seconds late (0.32.0 with a tiny model),
    when the engine core behind it may long be idle. Together they take at most half of the pool that
    ``beside_tokens`` leave, so that nothing is preempted for want of blocks.
    """
    size = _size(bench, at_once, beside_tokens)
    deadline_s = bench.clock.now() + _MOST_S
    others = Others()

    def work() -> None:
        answer: ProbeAnswer | None = None
        while not others.ended and bench.clock.now() < deadline_s and (answer is None or answer.completed):
            answer = bench.probe.ask(bench.probe.new_tokens(size))
            others.answers.append(answer)

    with ThreadPoolExecutor(at_once) as pool:
        workers = [pool.submit(work) for _ in range(at_once)]
        try:
            yield others
        finally:
            others.send_no_more()
    for worker in workers:
        worker.result()


def _size(bench: Bench, at_once: int, beside_tokens: int) -> int:
    block, capacity = bench.block_size, bench.counters().capacity_tokens
    if not capacity:
        return _LONGEST_TOKENS
    room = int(max(0, capacity - beside_tokens) * _SHARE) // at_once
    return max(block, min(_LONGEST_TOKENS, room) // block * block)
