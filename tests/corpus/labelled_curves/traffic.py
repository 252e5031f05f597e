"""Requests drawn from a rate of hits and a rate of arrivals, counted into the counters of an engine.

Everything is drawn in steps of an eighth of a scrape. Requests come in groups of one fate; a group hits ``share``
of its tokens or none. Sizes are gamma distributed with the mean and variance of log-normal ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hitcurve.reading import CutKind
from hitcurve.sample import AdapterActivity, EngineSample, LookupCounters
from labelled_curves.records import Scrape

__all__ = ["PROMPT", "START_S", "Shape", "Traffic", "always", "good_scrape", "scrapes"]

Floats = NDArray[np.float64]
Shape = Callable[[Floats], Floats]

START_S = 1_800_000_000.0
PROMPT = 800.0
"""Mean tokens of a request."""
_STEPS = 8


def always(value: float) -> Shape:
    """A shape that stays."""
    return lambda t: np.full_like(t, value)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of one replica. Shapes are functions of seconds since the start."""

    rate: Shape
    qps: Shape
    seconds: float
    scrape_s: float = 15.0
    share: float = 1.0
    prompt: float = PROMPT
    longer: Shape = field(default=always(1.0))
    """Prompt length as a multiple of ``prompt``."""
    spread: float = 0.3
    fate: int = 1
    counted: bool = True
    restarts: tuple[float, ...] = ()
    resets: tuple[float, ...] = ()
    told_by: str = "mark"
    """How resets show: ``mark`` (somebody tells), ``counter`` (the engine counts them), or ``nothing``."""
    start_time: bool = True
    """Whether the page tells the start time."""
    failed: frozenset[int] = frozenset()
    evictions: Shape | None = None
    """Blocks evicted per request; ``None`` where the engine does not tell."""
    preemptions: Shape = field(default=always(0.0))
    usage: Shape = field(default=always(0.3))
    waiting: Shape = field(default=always(0.0))
    adapters: Callable[[float], tuple[str, ...]] | None = None
    block_size: int = 16

    def gone(self, scrape: int) -> bool:
        return scrape in self.failed


def good_scrape(traffic: Traffic, after_s: float, number: int = 1) -> float:
    """When the ``number``-th good scrape comes that ends at or after ``after_s``; seconds since the start."""
    index = max(1, int(np.ceil(after_s / traffic.scrape_s - 1e-9)))
    while True:
        if not traffic.gone(index):
            number -= 1
            if number <= 0:
                return index * traffic.scrape_s
        index += 1


def scrapes(traffic: Traffic, rng: np.random.Generator) -> list[Scrape]:
    """All scrapes, the first at the start with counters at zero."""
    count = int(traffic.seconds / traffic.scrape_s)
    step_s = traffic.scrape_s / _STEPS
    middle = (np.arange(count * _STEPS) + 0.5) * step_s
    requests, queries, hits = _draw(traffic, middle, step_s, rng)
    evicted = requests * (always(0.0) if traffic.evictions is None else traffic.evictions)(middle)
    totals = [_counter(values, traffic.restarts, step_s) for values in (requests, queries, hits, evicted)]
    preempted = _counter(rng.poisson(requests * traffic.preemptions(middle)), traffic.restarts, step_s)
    ends = (np.arange(count) + 1) * traffic.scrape_s
    usage = np.clip(traffic.usage(ends) + rng.normal(0.0, 0.01, count), 0.0, 1.0)
    waiting = np.round(traffic.waiting(ends))
    found = [Scrape(START_S, _sample(traffic, 0.0, (0.0,) * 5, 0.3, 0.0))]
    marks: tuple[CutKind, ...] = ()
    for index in range(count):
        at_s = float(ends[index])
        last = (index + 1) * _STEPS - 1
        told = sum(at_s - traffic.scrape_s < moment <= at_s for moment in traffic.resets)
        if told and traffic.told_by == "mark":
            marks = (*marks, "reset")
        if traffic.gone(index + 1):
            found.append(Scrape(START_S + at_s, None))
            continue
        values = tuple(float(total[last]) for total in (*totals, preempted))
        found.append(
            Scrape(
                START_S + at_s, _sample(traffic, at_s, values, float(usage[index]), float(waiting[index])), marks
            )
        )
        marks = ()
    return found


def _draw(
    traffic: Traffic, middle: Floats, step_s: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    chance = np.clip(traffic.rate(middle) / traffic.share, 0.0, 1.0)
    groups = rng.poisson(traffic.qps(middle) * step_s / traffic.fate)
    lucky = rng.binomial(groups, chance)
    longer = traffic.longer(middle)
    hit_tokens = longer * _sizes(lucky * traffic.fate, traffic, rng)
    missed = longer * _sizes((groups - lucky) * traffic.fate, traffic, rng)
    found = np.clip(traffic.share + rng.normal(0.0, 0.03, len(middle)) / np.sqrt(np.maximum(lucky, 1)), 0.0, 1.0)
    requests = (groups * traffic.fate).astype(np.float64)
    return requests, np.round(hit_tokens + missed), np.floor(hit_tokens * found)


def _sizes(requests: NDArray[np.int64], traffic: Traffic, rng: np.random.Generator) -> Floats:
    """Tokens of so many requests together."""
    scatter = np.expm1(traffic.spread**2)
    some = np.maximum(requests, 1)
    return np.where(requests > 0, rng.gamma(some / scatter, traffic.prompt * scatter), 0.0)


def _counter(values: Floats, restarts: tuple[float, ...], step_s: float) -> Floats:
    """What the counter reads at the end of each step: it starts anew at a restart."""
    total = np.cumsum(values)
    for moment in restarts:
        first = int(moment / step_s)
        if first < len(total):
            total[first:] -= total[first - 1] if first else 0.0
    return np.floor(total)


def _sample(
    traffic: Traffic, at_s: float, values: tuple[float, ...], usage: float, waiting: float
) -> EngineSample:
    requests, queries, hits, evicted, preempted = values
    started = max((moment for moment in traffic.restarts if moment <= at_s), default=-30.0)
    adapters = traffic.adapters(at_s) if traffic.adapters else None
    resets = sum(started < moment <= at_s for moment in traffic.resets)
    return replace(
        _BLANK,
        at_s=START_S + at_s,
        monotonic_s=START_S + at_s,
        start_time_s=START_S + started if traffic.start_time else None,
        lookups=LookupCounters(queries, hits, spelling="vllm:prefix_cache_queries_total"),
        requests=requests if traffic.counted else None,
        evictions=evicted if traffic.evictions is not None else None,
        preemptions=preempted,
        resets=float(resets) if traffic.told_by == "counter" else None,
        kv_usage=usage,
        waiting=waiting,
        adapters=AdapterActivity(adapters) if adapters is not None else None,
        block_size=traffic.block_size,
    )


_BLANK = EngineSample("0", START_S, START_S, labels={"engine": "0"})
