"""What was added to an engine's counters between two scrapes, although the engine may have restarted.

The rules, in order, for the pair of lookup counters:

1. Another start time than before means another process. If that process was seen before, or started before the
   one it follows, or well before the last scrape, the address leads to several processes: no value.
   Else it is a restart. Where no start times tell, ``hitcurve.turn_taking`` looks for pairs that go on in turn.
2. A counter that fell means a restart; both counters of the pair are then taken from zero, never one alone.
3. Another name or unit means an upgrade: a restart if rule 1 or 2 says so, a plain difference if the start time
   stayed, else a restart without a value. A pair that counted nothing yet may go on under any name: readers
   guess that of counters which are not printed before their first increase.
"""

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hitcurve import flags
from hitcurve.sample import LookupCounters
from hitcurve.turn_taking import TurnTaking, fell

__all__ = ["UNTOLD_START", "Counter", "CounterMap", "LookupPair", "LookupsAdded", "hit_rate"]

UNTOLD_START: Final = -math.inf
"""Stands among start times for processes that tell none."""

_SAME_START_S: Final = 0.5
"""Start times are printed with few digits by some clients."""
_UNIX_TIME_S: Final = 1e9
"""Recordings may count seconds from any start; only a time after 2001 is compared with a start time."""
_CLOCK_SLACK_S: Final = 60.0
_REMEMBERED_STARTS: Final = 16
_SCRAPES_TO_TRUST_AGAIN: Final = 20


def hit_rate(queries: float, hits: float) -> float | None:
    """hits / queries, at most 1; ``None`` where nothing was looked up."""
    return min(hits / queries, 1.0) if queries > 0 else None


@dataclass(frozen=True, slots=True)
class LookupsAdded:
    """Lookups between two scrapes, in tokens. ``None`` is no value: unknown block size, or several processes."""

    queries: float | None
    hits: float | None
    hit_rate: float | None
    restarts: int = 0
    """1 where the process is another one than at the scrape before."""
    comparable: bool = True
    """Whether counters of this scrape can be compared with those of the scrape before, or with zero."""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Seen:
    lookups: LookupCounters
    start_time_s: float | None
    at_s: float


class LookupPair:
    """The pair of lookup counters of one engine over time.

    ``alternating_starts`` are start times of processes that the address is already known to lead to in turn,
    ``UNTOLD_START`` for those that tell none.
    """

    def __init__(self, *, alternating_starts: Collection[float] = ()) -> None:
        self._last: _Seen | None = None
        self._turns = TurnTaking()
        self._starts: deque[float] = deque(maxlen=_REMEMBERED_STARTS)
        self._alternating = set(alternating_starts)
        self._unstable_for = 0

    @property
    def alternating_starts(self) -> frozenset[float]:
        """Start times of processes that answered in turn, ``UNTOLD_START`` for those that tell none."""
        return frozenset(self._alternating)

    def add(self, lookups: LookupCounters, *, start_time_s: float | None, at_s: float) -> LookupsAdded | None:
        """Take the counters of a scrape; what was added since the one before, ``None`` at the first."""
        last, self._last = self._last, _Seen(lookups, start_time_s, at_s)
        if last is None:
            self._remember(start_time_s)
            return None
        another = _differ(last.start_time_s, start_time_s)
        if another and self._in_turn(last.start_time_s, start_time_s):
            self._alternating |= {start for start in (last.start_time_s, start_time_s) if start is not None}
            self._unstable_for = _SCRAPES_TO_TRUST_AGAIN
        elif last.start_time_s is None and start_time_s is None and self._took_turns(last.lookups, lookups):
            self._alternating.add(UNTOLD_START)
            self._unstable_for = _SCRAPES_TO_TRUST_AGAIN
        self._remember(start_time_s)
        if self._unstable_for:
            self._unstable_for -= 1
            return _no_value(flags.UNSTABLE_TARGET)
        if another and _started_before(start_time_s, last.at_s):
            return _no_value(flags.START_TIME_CHANGED, flags.UNSTABLE_TARGET, restarts=1)
        return _added(last, self._last, another_process=another)

    def _in_turn(self, last_s: float | None, now_s: float | None) -> bool:
        """Whether the other process cannot be a successor: it was seen before, or is the older one."""
        return _any_same(now_s, self._starts) or _any_same(now_s, self._alternating) or _went_back(last_s, now_s)

    def _took_turns(self, last: LookupCounters, now: LookupCounters) -> bool:
        seen = self._turns.observe(last, now)
        return seen or (UNTOLD_START in self._alternating and any(fell(last, now)))

    def _remember(self, start_time_s: float | None) -> None:
        if start_time_s is not None and not _any_same(start_time_s, self._starts):
            self._starts.append(start_time_s)


def _added(last: _Seen, now: _Seen, *, another_process: bool) -> LookupsAdded:
    queries_fell, hits_fell = fell(last.lookups, now.lookups)
    restarted = another_process or queries_fell or hits_fell
    found = []
    if another_process and not (queries_fell or hits_fell):
        found.append(flags.START_TIME_CHANGED)
    elif queries_fell != hits_fell:
        found.append(flags.RESTART_IN_ONE_COUNTER)
    renamed = last.lookups.spelling != now.lookups.spelling or last.lookups.unit != now.lookups.unit
    if renamed and (last.lookups.queries or last.lookups.hits):
        found.append(flags.SPELLING_CHANGED)
        if not restarted and (last.start_time_s is None or now.start_time_s is None):
            return _no_value(*found, restarts=1)
    before = LookupCounters(0, 0) if restarted else last.lookups
    if not restarted and last.lookups.tokens_per_unit != now.lookups.tokens_per_unit:
        return _no_value(*found)
    queries, hits = now.lookups.queries - before.queries, now.lookups.hits - before.hits
    if hits > queries:
        found.append(flags.HITS_EXCEED_QUERIES)
    size = now.lookups.tokens_per_unit
    return LookupsAdded(
        queries=None if size is None else queries * size,
        hits=None if size is None else hits * size,
        hit_rate=hit_rate(queries, hits),
        restarts=int(restarted),
        flags=tuple(found),
    )


def _no_value(*found: str, restarts: int = 0) -> LookupsAdded:
    return LookupsAdded(None, None, None, restarts, comparable=False, flags=found)


def _differ(one_s: float | None, other_s: float | None) -> bool:
    return one_s is not None and other_s is not None and abs(one_s - other_s) > _SAME_START_S


def _any_same(start_s: float | None, known: Iterable[float]) -> bool:
    return start_s is not None and any(not _differ(start_s, one) for one in known)


def _went_back(last_s: float | None, now_s: float | None) -> bool:
    return last_s is not None and now_s is not None and now_s < last_s


def _started_before(start_s: float | None, at_s: float) -> bool:
    return start_s is not None and at_s > _UNIX_TIME_S and start_s < at_s - _CLOCK_SLACK_S


class Counter:
    """One counter of an engine whose restarts are told by its lookup pair, or seen when it falls."""

    def __init__(self) -> None:
        self._last: float | None = None

    def add(self, value: float | None, *, restarted: bool) -> float | None:
        """What was added since the last known value; ``None`` where either is unknown."""
        if value is None or not math.isfinite(value):
            return None
        last, self._last = self._last, value
        if last is None:
            return None
        return value if restarted or value < last else value - last

    def forget(self) -> None:
        """The next value is a first one."""
        self._last = None


class CounterMap:
    """Counters of one engine under names that come and go."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}

    def add(self, values: Mapping[str, float | None], *, restarted: bool) -> dict[str, float | None]:
        """What was added to each since its last known value."""
        return {
            name: self._counters.setdefault(name, Counter()).add(value, restarted=restarted)
            for name, value in values.items()
        }

    def forget(self) -> None:
        """The next values are first ones."""
        self._counters.clear()
