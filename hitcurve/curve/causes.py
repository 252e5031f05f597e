"""The probable cause of a change, from what else the engine showed around its onset."""

import math
from array import array
from collections import deque
from collections.abc import Sequence

from hitcurve.curve.batch import Batch
from hitcurve.curve.miss_reasons import MissReasons
from hitcurve.reading import Cause, Cut
from hitcurve.sample import EngineSample

__all__ = ["Signals"]

_KEPT_SCRAPES = 240
_MOST_KNOWN_ADAPTERS = 2000
_USUAL_SCRAPES = 60.0
_FULL_USAGE = 0.95
_USAGE_JUMP = 0.2
_JUMP = 3.0
_PRESSURE_JUMP = 2.0
_SHIFT = 3.0
_LONGER_PROMPTS = 2.0
_FEW_PROMPT_BLOCKS = 2.0
_LONG_BLOCK_TOKENS = 512
_NOBODY: frozenset[str] = frozenset()
_CAUSE_OF_REASON: dict[str, Cause] = {
    "capacity": "pool_pressure",
    "stranded": "pool_pressure",
    "reset": "reset",
    "isolated": "isolation",
    "compulsory": "traffic_shift",
    "tail": "traffic_shift",
}
_CAUSE_OF_LOW_REASON: dict[str, Cause] = {
    "capacity": "pool_pressure",
    "stranded": "pool_pressure",
    "isolated": "isolation",
    "tail": "short_prefix",
}
"""Tokens that nobody ever sent before, or a reset long ago, explain no rate that never rises."""


_AT, _SECONDS, _REQUESTS, _QUERIES, _EVICTIONS, _PREEMPTIONS, _USAGE, _NEW_ADAPTERS = range(8)
_WIDTH = 8
_LEARNT = (_SECONDS, _REQUESTS, _QUERIES, _EVICTIONS, _PREEMPTIONS, _USAGE, _NEW_ADAPTERS)


class _Window:
    """The scrapes since an onset: sums of their columns, and the adapters at each."""

    def __init__(self, rows: Sequence[Sequence[float]], adapters: Sequence[frozenset[str]]) -> None:
        self._rows = rows
        self.adapters = adapters

    def __len__(self) -> int:
        return len(self._rows)

    def total(self, column: int) -> float:
        return sum(row[column] for row in self._rows)

    def most(self, column: int) -> float:
        return max((row[column] for row in self._rows), default=0.0)

    def with_traffic(self) -> "_Window":
        kept = [number for number, row in enumerate(self._rows) if row[_REQUESTS] > 0]
        return _Window([self._rows[number] for number in kept], [self.adapters[number] for number in kept])


class Signals:
    """Counts per scrape of evictions, preemptions, pool usage, adapters and traffic, and what they usually are.

    The newest 240 scrapes are kept in one array of eight numbers each: as records they would take five times the
    memory, and engines are many.
    """

    def __init__(self) -> None:
        self._rows = array("d")
        self._adapters: deque[frozenset[str]] = deque(maxlen=_KEPT_SCRAPES)
        self._unjudged = 0
        """How many of the newest rows nobody has judged yet."""
        self._usual = array("d", [0.0] * _WIDTH)
        self._learnt = 0.0
        self._last: EngineSample | None = None
        self._known_adapters: set[str] = set()
        self._misses = MissReasons()

    def observe(self, at_s: float, sample: EngineSample, batch: Batch | None, cuts: Sequence[Cut]) -> None:
        """Take in one good scrape."""
        last = self._last
        adapters = frozenset(sample.adapters.running + sample.adapters.waiting) if sample.adapters else _NOBODY
        if self._adapters and adapters == self._adapters[-1]:
            adapters = self._adapters[-1]
        if len(self._adapters) == _KEPT_SCRAPES:
            del self._rows[:_WIDTH]
        self._adapters.append(adapters)
        self._rows.extend(
            (
                at_s,
                batch.to_s - batch.from_s if batch else 0.0,
                batch.requests if batch else 0.0,
                batch.queries if batch else 0.0,
                _increase(last.evictions if last else None, sample.evictions),
                _increase(last.preemptions if last else None, sample.preemptions),
                sample.kv_usage or 0.0,
                len(adapters - self._known_adapters) + sum(cut.kind == "adapter_load" for cut in cuts),
            )
        )
        self._unjudged = min(self._unjudged + 1, _KEPT_SCRAPES)
        self._misses.observe(at_s, sample.explained)
        self._last = sample

    def judge(self, healthy: bool, suspected: bool) -> None:
        """Learn what is usual. Scrapes under suspicion of a fall wait until it is gone, or are never learnt."""
        self._misses.judge(healthy, suspected)
        if healthy and not suspected:
            for number in range(len(self._adapters) - self._unjudged, len(self._adapters)):
                self._learn(number)
        if not healthy or not suspected:
            self._unjudged = 0

    def _learn(self, number: int) -> None:
        row = self._rows[number * _WIDTH : (number + 1) * _WIDTH]
        if row[_REQUESTS] <= 0:
            return
        if len(self._known_adapters) < _MOST_KNOWN_ADAPTERS:
            self._known_adapters |= self._adapters[number]
        self._learnt += 1.0
        gain = max(1.0 / _USUAL_SCRAPES, 1.0 / self._learnt)
        for column in _LEARNT:
            self._usual[column] += gain * (row[column] - self._usual[column])

    def _around(self, from_s: float, to_s: float = math.inf) -> _Window:
        """Scrapes from the onset on, with the one at which it began, up to ``to_s``."""
        rows, number = self._rows, len(self._adapters)
        while number and rows[(number - 1) * _WIDTH] >= from_s:
            number -= 1
        end = len(self._adapters)
        while end > number and rows[(end - 1) * _WIDTH] > to_s:
            end -= 1
        found = [rows[at * _WIDTH : (at + 1) * _WIDTH] for at in range(number, end)]
        return _Window(found, list(self._adapters)[number:end])

    def pool_pressed(self, from_s: float, to_s: float = math.inf) -> bool:
        """Evictions or preemptions per second, or the pool's usage, jumped."""
        window = self._around(from_s, to_s).with_traffic()
        requests, seconds = window.total(_REQUESTS), window.total(_SECONDS)
        if requests <= 0 or seconds <= 0:
            return False
        for column, least in ((_EVICTIONS, requests / 4), (_PREEMPTIONS, 1.0)):
            now = window.total(column)
            before = self._usual[column] / max(self._usual[_SECONDS], 1e-9)
            if now / seconds > _PRESSURE_JUMP * before and now >= least:
                return True
        usage = window.most(_USAGE)
        return usage >= _FULL_USAGE and usage >= self._usual[_USAGE] + _USAGE_JUMP

    def adapters_churned(self, from_s: float, to_s: float = math.inf) -> bool:
        """Adapters are in use that were not in use while the curve was healthy, more than usual."""
        window = self._around(from_s, to_s)
        return window.total(_NEW_ADAPTERS) > _JUMP * self._usual[_NEW_ADAPTERS] * len(window)

    def _adapters_keep_coming(self, window: _Window) -> bool:
        """Where the curve never was healthy: the newer half of the scrapes shows adapters that the older did
        not."""
        half = len(window) // 2
        older = _NOBODY.union(*window.adapters[:half])
        newer = _NOBODY.union(*window.adapters[half:])
        return half > 0 and len(newer - older) > max(len(older) / 2, 1.0)

    def traffic_shifted(self, from_s: float) -> bool:
        """Request rate or prompt length are far from usual."""
        window = self._around(from_s).with_traffic()
        seconds, requests = window.total(_SECONDS), window.total(_REQUESTS)
        usual_s, usual_requests = self._usual[_SECONDS], self._usual[_REQUESTS]
        if requests <= 0 or seconds <= 0 or usual_requests <= 0 or usual_s <= 0:
            return False
        pace = (requests / seconds) / (usual_requests / usual_s)
        length = (window.total(_QUERIES) / requests) / (self._usual[_QUERIES] / usual_requests)
        return not (1 / _SHIFT < pace < _SHIFT and 1 / _LONGER_PROMPTS < length < _LONGER_PROMPTS)

    def blocks_lost(self, from_s: float, to_s: float) -> bool:
        """Evictions, preemptions or fresh adapters tell that blocks were lost within a stretch of time."""
        return self.adapters_churned(from_s, to_s) or self.pool_pressed(from_s, to_s)

    def miss_reason(self, from_s: float) -> str | None:
        """The miss reason that grew most after ``from_s``; ``None`` where the engine patch tells none."""
        return self._misses.grown(from_s)

    def of_change(self, from_s: float) -> Cause:
        """Cause of a fall or of swings that began at ``from_s``."""
        reason = self._misses.grown(from_s)
        if reason != "reset" and self.adapters_churned(from_s):
            return "lora_churn"
        if reason in _CAUSE_OF_REASON:
            return _CAUSE_OF_REASON[reason]
        if self.pool_pressed(from_s):
            return "pool_pressure"
        if self.traffic_shifted(from_s):
            return "traffic_shift"
        return "unknown"

    def of_low_rate(self, from_s: float) -> Cause:
        """Cause of a rate that never rises."""
        window, reason = self._around(from_s), self._misses.grown(from_s)
        if reason in _CAUSE_OF_LOW_REASON and not self._adapters_keep_coming(window):
            return _CAUSE_OF_LOW_REASON[reason]
        if self._prefix_too_short(window):
            return "short_prefix"
        if self._adapters_keep_coming(window):
            return "lora_churn"
        if window.total(_PREEMPTIONS) > 0 or self.pool_pressed(from_s):
            return "pool_pressure"
        if len(_NOBODY.union(*window.adapters)) > 1:
            return "isolation"
        return "unknown"

    def _prefix_too_short(self, window: _Window) -> bool:
        """Prompts hold too few blocks for a shared prefix to fill one."""
        sample = self._last
        shortest = sample and (sample.min_reusable_prefix_tokens or sample.block_size)
        if not shortest:
            return False
        requests = window.total(_REQUESTS)
        if requests <= 0:
            return shortest >= _LONG_BLOCK_TOKENS
        return window.total(_QUERIES) / requests < _FEW_PROMPT_BLOCKS * shortest


def _increase(before: float | None, now: float | None) -> float:
    """Increase of a counter, from zero after a restart; 0 where it is unknown, as then it proves nothing."""
    if before is None or now is None:
        return 0.0
    return now - before if now >= before else now
