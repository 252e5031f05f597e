"""The probable cause of a change, from what else the engine showed around its onset."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hitcurve.curve.batch import Batch
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


@dataclass(frozen=True, slots=True)
class _Signal:
    at_s: float
    seconds: float
    requests: float
    queries: float
    evictions: float
    preemptions: float
    usage: float
    adapters: frozenset[str]
    new_adapters: int


class Signals:
    """Counts per scrape of evictions, preemptions, pool usage, adapters and traffic, and what they usually are."""

    def __init__(self) -> None:
        self._recent: deque[_Signal] = deque(maxlen=_KEPT_SCRAPES)
        self._unjudged: deque[_Signal] = deque(maxlen=_KEPT_SCRAPES)
        self._usual: dict[str, float] = {}
        self._last: EngineSample | None = None
        self._known_adapters: set[str] = set()

    def observe(self, at_s: float, sample: EngineSample, batch: Batch | None, cuts: Sequence[Cut]) -> None:
        """Take in one good scrape."""
        signal = self._signal(at_s, sample, batch, cuts)
        self._recent.append(signal)
        if batch is not None:
            self._unjudged.append(signal)
        self._last = sample

    def judge(self, healthy: bool, suspected: bool) -> None:
        """Learn what is usual. Scrapes under suspicion of a fall wait until it is gone, or are never learnt."""
        if healthy and not suspected:
            for signal in self._unjudged:
                self._learn(signal)
        if not healthy or not suspected:
            self._unjudged.clear()

    def _signal(self, at_s: float, sample: EngineSample, batch: Batch | None, cuts: Sequence[Cut]) -> _Signal:
        last = self._last
        adapters = frozenset(sample.adapters.running + sample.adapters.waiting) if sample.adapters else frozenset()
        if last is not None and self._recent and adapters == self._recent[-1].adapters:
            adapters = self._recent[-1].adapters
        return _Signal(
            at_s=at_s,
            seconds=batch.to_s - batch.from_s if batch else 0.0,
            requests=batch.requests if batch else 0.0,
            queries=batch.queries if batch else 0.0,
            evictions=_increase(last.evictions if last else None, sample.evictions),
            preemptions=_increase(last.preemptions if last else None, sample.preemptions),
            usage=sample.kv_usage or 0.0,
            adapters=adapters,
            new_adapters=len(adapters - self._known_adapters) + sum(cut.kind == "adapter_load" for cut in cuts),
        )

    def _learn(self, signal: _Signal) -> None:
        if len(self._known_adapters) < _MOST_KNOWN_ADAPTERS:
            self._known_adapters |= signal.adapters
        gain = max(1.0 / _USUAL_SCRAPES, 1.0 / (self._usual.get("scrapes", 0.0) + 1.0))
        self._usual["scrapes"] = self._usual.get("scrapes", 0.0) + 1.0
        for name in ("seconds", "requests", "queries", "evictions", "preemptions", "usage", "new_adapters"):
            value = float(getattr(signal, name))
            known = self._usual.get(name, value)
            self._usual[name] = known + gain * (value - known)

    def around(self, from_s: float) -> list[_Signal]:
        """Scrapes from the onset on, with the one at which it began."""
        return [signal for signal in self._recent if signal.at_s >= from_s]

    def pool_pressed(self, from_s: float) -> bool:
        """Evictions or preemptions per second, or the pool's usage, jumped."""
        window = [signal for signal in self.around(from_s) if signal.seconds > 0]
        requests, seconds = sum(s.requests for s in window), sum(s.seconds for s in window)
        if requests <= 0:
            return False
        for name, least in (("evictions", requests / 4), ("preemptions", 1.0)):
            now = sum(getattr(signal, name) for signal in window)
            before = self._usual.get(name, 0.0) / max(self._usual.get("seconds", 0.0), 1e-9)
            if now / seconds > _PRESSURE_JUMP * before and now >= least:
                return True
        usage = max(signal.usage for signal in window)
        return usage >= _FULL_USAGE and usage >= self._usual.get("usage", 0.0) + _USAGE_JUMP

    def adapters_churned(self, from_s: float) -> bool:
        """Adapters are in use that were not in use while the curve was healthy, more than usual."""
        window = self.around(from_s)
        new = sum(signal.new_adapters for signal in window)
        return new > _JUMP * self._usual.get("new_adapters", 0.0) * len(window)

    def traffic_shifted(self, from_s: float) -> bool:
        """Request rate or prompt length are far from usual."""
        window = [signal for signal in self.around(from_s) if signal.requests > 0]
        seconds, requests = sum(s.seconds for s in window), sum(s.requests for s in window)
        usual = self._usual
        if requests <= 0 or seconds <= 0 or not usual.get("requests") or not usual.get("seconds"):
            return False
        pace = (requests / seconds) / (usual["requests"] / usual["seconds"])
        length = (sum(s.queries for s in window) / requests) / (usual["queries"] / usual["requests"])
        return not (1 / _SHIFT < pace < _SHIFT and 1 / _LONGER_PROMPTS < length < _LONGER_PROMPTS)

    def of_change(self, from_s: float) -> Cause:
        """Cause of a fall or of swings that began at ``from_s``."""
        if self.adapters_churned(from_s):
            return "lora_churn"
        if self.pool_pressed(from_s):
            return "pool_pressure"
        if self.traffic_shifted(from_s):
            return "traffic_shift"
        return "unknown"

    def of_low_rate(self, from_s: float) -> Cause:
        """Cause of a rate that never rises."""
        window = self.around(from_s)
        if self._prefix_too_short(window):
            return "short_prefix"
        if self.adapters_churned(from_s):
            return "lora_churn"
        if any(signal.preemptions > 0 for signal in window) or self.pool_pressed(from_s):
            return "pool_pressure"
        if len(frozenset().union(*(signal.adapters for signal in window))) > 1:
            return "isolation"
        return "unknown"

    def _prefix_too_short(self, window: Sequence[_Signal]) -> bool:
        """Prompts hold too few blocks for a shared prefix to fill one."""
        sample = self._last
        shortest = sample and (sample.min_reusable_prefix_tokens or sample.block_size)
        if not shortest:
            return False
        requests = sum(signal.requests for signal in window)
        length = sum(signal.queries for signal in window) / requests if requests > 0 else None
        if length is None:
            return shortest >= _LONG_BLOCK_TOKENS
        return length < _FEW_PROMPT_BLOCKS * shortest


def _increase(before: float | None, now: float | None) -> float:
    """Increase of a counter, from zero after a restart; 0 where it is unknown, as then it proves nothing."""
    if before is None or now is None:
        return 0.0
    return now - before if now >= before else now
