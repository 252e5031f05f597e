"""The synthetic workloads A to F: shared system prompts, short templates, chats under three pool sizes.

Their sizes follow the comparison of block hashes and radix trees that this project starts from. Token ids are
unique except where a prefix is shared on purpose. The same seed gives the same requests in every process.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.vllm import Request

__all__ = ["WORKLOADS", "Workload", "workload_rows"]

SESSIONS = 32
TURNS = 6
REQUESTS = 256
SYSTEM_PROMPT_OF_CHATS = 500


@dataclass(frozen=True, slots=True)
class Workload:
    """What a letter stands for. ``pool_tokens`` None is a pool that never fills."""

    name: str
    title: str
    pool_tokens: int | None
    make: Callable[[random.Random], Iterator[TraceRow]]


CONCURRENCY = 8
"""Requests of a workload that hold blocks at once; they finish in the order in which they started."""


def workload_rows(name: str, seed: int) -> list[TraceRow]:
    """The requests of workload ``A`` to ``F``. Raises KeyError for another name."""
    return list(WORKLOADS[name].make(random.Random(f"{name} {seed}")))


def _shared_prefix(
    prefix: int, suffix: tuple[int, int], output: tuple[int, int]
) -> Callable[..., Iterator[TraceRow]]:
    """Requests that share their first ``prefix`` tokens; ``suffix`` and ``output`` are ranges of lengths."""

    def make(rng: random.Random) -> Iterator[TraceRow]:
        fresh = count()
        shared = _take(fresh, prefix)
        for line in range(1, REQUESTS + 1):
            prompt = shared + _take(fresh, rng.randint(*suffix))
            yield _row(line, prompt, _take(fresh, rng.randint(*output)), None)

    return make


def _chats(rng: random.Random) -> Iterator[TraceRow]:
    """Sessions whose prompt is the whole chat so far plus a new message; the next session is drawn uniformly."""
    fresh = count()
    system = _take(fresh, SYSTEM_PROMPT_OF_CHATS)
    history = [system] * SESSIONS
    turns_left = [TURNS] * SESSIONS
    for line in range(1, SESSIONS * TURNS + 1):
        session = rng.choice([chat for chat in range(SESSIONS) if turns_left[chat]])
        turns_left[session] -= 1
        prompt = history[session] + _take(fresh, rng.randint(30, 200))
        output = _take(fresh, rng.randint(50, 300))
        history[session] = prompt + output
        yield _row(line, prompt, output, f"chat {session}")


def _take(fresh: Iterator[int], length: int) -> tuple[int, ...]:
    return tuple(next(fresh) for _ in range(length))


def _row(line: int, prompt: tuple[int, ...], output: tuple[int, ...], session: str | None) -> TraceRow:
    return TraceRow(
        line=line,
        request=Request(f"request {line}", prompt_token_ids=prompt, max_output_tokens=len(output)),
        output_tokens=len(output),
        output_token_ids=output,
        session=session,
    )


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("A", "system prompt of 1000 tokens", None, _shared_prefix(1000, (20, 400), (32, 200))),
        Workload("B", "system prompt of 63 blocks of 16", None, _shared_prefix(1008, (20, 400), (32, 200))),
        Workload("C", "shared prefix shorter than a block", None, _shared_prefix(12, (20, 60), (16, 64))),
        Workload("D", "chats, pool that never fills", None, _chats),
        Workload("E", "chats, pool of 32,768 tokens", 32_768, _chats),
        Workload("F", "chats, pool of 24,576 tokens", 24_576, _chats),
    )
}
