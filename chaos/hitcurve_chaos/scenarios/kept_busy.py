"""An engine kept busy: unique long prompts, some of which are computed at every moment of a block."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from hitcurve_chaos.probe import ProbeAnswer
from hitcurve_chaos.scenarios.scenario import Bench

__all__ = ["kept_busy"]

_LONGEST_TOKENS = 1500
_SHARE = 0.5
_MOST_S = 60.0


@contextmanager
def kept_busy(bench: Bench, at_once: int, *, beside_tokens: int = 0) -> Iterator[list[ProbeAnswer]]:
    """Keep ``at_once`` prompts in flight until the block is left; the list holds their answers after that.

    Prompts rather than long answers: computing one is a long step that brings few tokens. A stream of quick tokens
    occupies vLLM's API server so much that its calls and metrics come seconds late (0.32.0 with a tiny model),
    when the engine core behind it may long be idle. Together they take at most half of the pool that
    ``beside_tokens`` leave, so that nothing is preempted for want of blocks.
    """
    size = _size(bench, at_once, beside_tokens)
    ended = threading.Event()
    deadline_s = bench.clock.now() + _MOST_S

    def work() -> list[ProbeAnswer]:
        answers = []
        while not ended.is_set() and bench.clock.now() < deadline_s:
            answers.append(bench.probe.ask(bench.probe.new_tokens(size)))
            if not answers[-1].completed:
                break
        return answers

    found: list[ProbeAnswer] = []
    with ThreadPoolExecutor(at_once) as pool:
        workers: list[Future[list[ProbeAnswer]]] = [pool.submit(work) for _ in range(at_once)]
        try:
            yield found
        finally:
            ended.set()
    for worker in workers:
        found += worker.result()


def _size(bench: Bench, at_once: int, beside_tokens: int) -> int:
    block, capacity = bench.block_size, bench.counters().capacity_tokens
    if not capacity:
        return _LONGEST_TOKENS
    room = int(max(0, capacity - beside_tokens) * _SHARE) // at_once
    return max(block, min(_LONGEST_TOKENS, room) // block * block)
