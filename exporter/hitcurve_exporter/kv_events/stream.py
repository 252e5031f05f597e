"""The batches of one publisher in order: gaps, repetitions and restarts, told by their numbers.

A publisher numbers its batches from 0 and never repeats one on a connection. So a number that is too low is
another process, and one that is too high is a gap. After a lost connection another process may have come just as
far: only a replay can tell, by the batch that both would have to know.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hitcurve.kv_events import BlocksCleared, MalformedBatch, decode_batch
from hitcurve_exporter.kv_events.block_table import BlockTable

__all__ = ["KvStream", "StreamCounts"]

Numbered = tuple[int, bytes]
_MOST_AHEAD: Final = 100_000


@dataclass(slots=True)
class StreamCounts:
    """Since watching began."""

    batches: int = 0
    gaps: int = 0
    """Times that numbers were left out."""
    missed_batches: int = 0
    replayed_batches: int = 0
    """Missed ones that a replay brought."""
    refused_messages: int = 0
    """Messages that are no batch."""
    restarts: int = 0
    """Times that the publisher began anew."""


class KvStream:
    """Takes numbered batches. ``need`` says what to ask a replay for before ``take``."""

    def __init__(self, table: BlockTable) -> None:
        self.table = table
        self.counts = StreamCounts()
        self.last_at_s: float | None = None
        """When the newest batch arrived, Unix time."""
        self.doubtful = False
        """The connection was lost, and whether the same process is behind the new one is not known yet."""
        self._next: int | None = None
        self._last: int = 0
        self._ahead: dict[int, int] = {}

    def need(self, number: int | None) -> int | None:
        """The number that a replay has to begin with, or ``None`` where none is needed.

        ``number`` is that of the batch that arrived; ``None`` asks on a new connection, before one did.
        """
        if self._next is None or (number is not None and number < self._next and number not in self._ahead):
            return None if number == 0 else 0
        if number in (None, self._next) and not self.doubtful:
            return None
        if number is not None and number in self._ahead:
            return None
        return max(0, self._next - 1)

    def recognises(self, replayed: Sequence[Numbered]) -> bool:
        """Whether a replay comes from the process whose batches were taken so far."""
        if self._next is None:
            return False
        if self._next == 0:
            return not replayed or replayed[0][0] == 0
        return bool(replayed) and replayed[0][0] == self._next - 1 and hash(replayed[0][1]) == self._last

    def catch_up(self, replayed: Sequence[Numbered], at_s: float) -> bool:
        """Take a whole replay, without any batch beside it; whether the cache was reset in it."""
        self._ahead = {}
        return self._catch_up(replayed, at_s, below=0)

    def take(self, number: int, payload: bytes, at_s: float, replayed: Sequence[Numbered] | None = None) -> bool:
        """The batch that arrived, after what a replay brought; whether the cache was reset since the last one."""
        if self._ahead.get(number) == hash(payload):
            return False
        self._ahead = {}
        other = self._next is not None and number < self._next
        missed = number if other else 0 if self._next is None else number - self._next
        if missed:
            self.counts.gaps += 1
            self.counts.missed_batches += missed
        reset = False
        if replayed is not None:
            reset = self._catch_up(replayed, at_s, below=number)
            if self._ahead.get(number) == hash(payload):
                return reset
        elif other:
            self._begin_anew()
        if self._next is None or number < self._next:
            self._next = 0
            self.table.begin_empty()
        elif self.doubtful:
            self.table.forget()
        self.doubtful = False
        return self._advance(number, payload, at_s, counted=True) or reset

    def _catch_up(self, replayed: Sequence[Numbered], at_s: float, *, below: int) -> bool:
        first_time = self._next is None
        if not self.recognises(replayed):
            if not first_time:
                self._begin_anew()
            self._next = 0
            self.table.begin_empty()
        self.doubtful = False
        reset = False
        for number, payload in replayed:
            if number >= (self._next or 0):
                self.counts.replayed_batches += not first_time and number < below
                reset = self._advance(number, payload, at_s, counted=not first_time) or reset
                if len(self._ahead) < _MOST_AHEAD:
                    self._ahead[number] = self._last
        return reset and not first_time

    def _begin_anew(self) -> None:
        self.counts.restarts += 1
        self._next = None

    def _advance(self, number: int, payload: bytes, at_s: float, *, counted: bool) -> bool:
        if number != self._next:
            self.table.forget()
        self._next, self._last = number + 1, hash(payload)
        self.counts.batches += counted
        self.last_at_s = at_s
        try:
            batch = decode_batch(payload)
        except MalformedBatch:
            self.counts.refused_messages += 1
            self.table.forget()
            return False
        for event in batch.events:
            self.table.take(event, counted=counted)
        return any(isinstance(event, BlocksCleared) for event in batch.events)
