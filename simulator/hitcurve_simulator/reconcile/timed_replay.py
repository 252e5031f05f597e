"""Requests through cache rules at the times at which they came and went."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hitcurve_engine.ledger import Ledger, MissReason, Outcome
from hitcurve_simulator.simulate.cache_rules import CacheRules
from hitcurve_simulator.simulate.ledger_feed import LedgerFeed
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.vllm import CacheObserver

__all__ = ["Fate", "Visit", "replay_visits"]

# The ledger forgets gone blocks beyond this many pools; a log is finite, so nothing is ever forgotten.
_REMEMBER_ALL = 1e9


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that comes at ``start_s`` and leaves at ``end_s``, where it can be admitted at once."""

    row: TraceRow
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of the prompt tokens of one request; ``hit`` is None where it may not read the cache."""

    hit: int | None
    misses: dict[MissReason, int] = field(default_factory=dict)


def replay_visits(
    visits: Sequence[Visit],
    make_rules: Callable[[CacheObserver], CacheRules],
    block_size: int,
    pool_blocks: int | None,
    on_visit: Callable[[], None] = lambda: None,
) -> list[Fate | str]:
    """The fate of each visit, in order, or why it fits in no pool of this size.

    Visits come in the order of ``start_s``. One that finds no room waits, and all behind it, until enough others
    have left. Outputs stay in the pool where the rules keep them.
    """
    outcomes: dict[str, Outcome] = {}
    ledger = Ledger(
        block_size,
        pool_blocks=pool_blocks,
        ghosts_per_block=_REMEMBER_ALL,
        on_outcome=lambda outcome: outcomes.__setitem__(outcome.request_id, outcome),
    )
    rows = [visit.row for visit in visits]
    isolating = any(row.request.adapter or row.request.cache_salt for row in rows)
    clock = _Clock()
    rules = make_rules(LedgerFeed(ledger, clock, block_size, isolating))
    room = _Room(rules)
    reasons: list[str | None] = []
    for visit in visits:
        clock.now_s += 1.0
        reason = rules.reason_to_reject(visit.row.request, visit.row.output_tokens)
        if reason is None:
            room.enter(visit)
        reasons.append(reason)
        on_visit()
    room.leave_until(float("inf"))
    return [
        _fate(outcomes[row.request.request_id]) if reason is None else reason
        for row, reason in zip(rows, reasons, strict=True)
    ]


@dataclass(slots=True)
class _Clock:
    """The ledger's seconds count visits."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


class _Room:
    """Who holds blocks, by the time of leaving."""

    def __init__(self, rules: CacheRules) -> None:
        self._rules = rules
        self._inside: list[tuple[float, int, TraceRow]] = []
        self._entered = 0
        self._unknown_token = -1

    def enter(self, visit: Visit) -> None:
        self.leave_until(visit.start_s)
        while self._rules.start(visit.row.request, visit.row.output_tokens) is None:
            self._leave()
        heapq.heappush(self._inside, (visit.end_s, self._entered, visit.row))
        self._entered += 1

    def leave_until(self, now_s: float) -> None:
        while self._inside and self._inside[0][0] <= now_s:
            self._leave()

    def _leave(self) -> None:
        _, _, row = heapq.heappop(self._inside)
        self._rules.finish(row.request.request_id, row.output_token_ids or self._unknown(row.output_tokens))

    def _unknown(self, count: int) -> range:
        """Tokens that occur nowhere else: an output of unknown content is shared with nobody."""
        first = self._unknown_token
        self._unknown_token -= count
        return range(first, self._unknown_token, -1)


def _fate(outcome: Outcome) -> Fate:
    if outcome.hit_tokens is None:
        return Fate(None)
    return Fate(outcome.hit_tokens, dict(outcome.miss_tokens or {}))
