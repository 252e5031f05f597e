"""A compact generator of synthetic curves: requests that hit or miss, counted into scrapes."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from hitcurve.curve import CurveClassifier, CurveConfig
from hitcurve.reading import CurveState, Cut, Interval
from hitcurve.sample import AdapterActivity, EngineSample

Shape = Callable[[float], float]


@dataclass
class Scrape:
    """What the classifier is given at one scrape."""

    interval: Interval | None
    sample: EngineSample | None
    at_s: float
    cuts: tuple[Cut, ...] = ()


@dataclass
class Traffic:
    """Requests of one replica. ``rate`` and ``qps`` are functions of the time in seconds.

    A request hits ``share`` of its tokens or none, so that the mean is ``rate``. With a share of 1 it hits or
    misses as a whole, the noisiest there is; with a share equal to the rate, as with a system prompt that all
    requests have in common, every request hits alike. ``batch`` requests in a row have one fate.
    """

    rate: Shape
    qps: Shape
    seconds: float
    scrape_s: float = 15.0
    share: float = 1.0
    prompt: float = 800.0
    spread: float = 0.3
    batch: int = 1
    counted: bool = True
    events: tuple[tuple[float, str], ...] = ()
    evictions: Shape = lambda _: 0.0
    """Blocks evicted per request."""
    usage: Shape = lambda _: 0.3
    preemptions: Shape = lambda _: 0.0
    """Preemptions per request."""
    waiting: Shape = lambda _: 0.0
    adapters: Callable[[float], tuple[str, ...]] = lambda _: ()
    block_size: int = 16
    failed: frozenset[int] = field(default_factory=frozenset)


def scrapes(traffic: Traffic, seed: int) -> Iterator[Scrape]:
    """The scrapes of one replica, the first with the cut of the start."""
    rng = random.Random(seed)
    count = int(traffic.seconds / traffic.scrape_s)
    sample = EngineSample("0", 0.0, 0.0, block_size=traffic.block_size, requests=0.0)
    totals = {"evictions": 0.0, "preemptions": 0.0}
    last_s, carried = 0.0, [0.0, 0.0, 0.0]
    events = sorted(traffic.events)
    yield Scrape(None, sample, 0.0, (Cut(0.0, "start"),))
    for index in range(1, count + 1):
        to_s = index * traffic.scrape_s
        queries, hits, requests = _requests(traffic, to_s - traffic.scrape_s, to_s, rng)
        middle = to_s - traffic.scrape_s / 2
        totals["evictions"] += traffic.evictions(middle) * requests
        totals["preemptions"] += traffic.preemptions(middle) * requests
        carried = [a + b for a, b in zip(carried, (queries, hits, requests), strict=True)]
        if index in traffic.failed:
            yield Scrape(None, None, to_s)
            continue
        queries, hits, requests = carried
        carried = [0.0, 0.0, 0.0]
        cuts = []
        while events and events[0][0] <= to_s:
            at_s, kind = events.pop(0)
            cuts.append(Cut(at_s, kind))  # type: ignore[arg-type]
        interval = Interval(
            last_s,
            to_s,
            queries,
            hits,
            hits / queries if queries else None,
            requests=requests if traffic.counted else None,
            restarts=sum(cut.kind == "restart" for cut in cuts),
        )
        last_s = to_s
        sample = replace(
            sample,
            at_s=to_s,
            monotonic_s=to_s,
            kv_usage=traffic.usage(middle),
            waiting=traffic.waiting(middle),
            adapters=AdapterActivity(traffic.adapters(middle)),
            evictions=float(int(totals["evictions"])),
            preemptions=float(int(totals["preemptions"])),
        )
        yield Scrape(interval, sample, to_s, tuple(cuts))


def _requests(traffic: Traffic, from_s: float, to_s: float, rng: random.Random) -> tuple[float, float, float]:
    """Queries, hits and requests of one interval; more than 400 requests are drawn as a normal sum."""
    steps = 10
    step_s = (to_s - from_s) / steps
    queries = hits = requests = 0.0
    for step in range(steps):
        at_s = from_s + (step + 0.5) * step_s
        chance = min(max(traffic.rate(at_s) / traffic.share, 0.0), 1.0)
        arrived = _poisson(traffic.qps(at_s) * step_s / traffic.batch, rng) * traffic.batch
        requests += arrived
        if arrived > 400:
            effective = arrived / traffic.batch
            error = math.sqrt(chance * (1 - chance) / effective)
            queries += arrived * traffic.prompt
            hits += arrived * traffic.prompt * traffic.share * min(max(rng.gauss(chance, error), 0.0), 1.0)
            continue
        while arrived > 0:
            hit = rng.random() < chance
            for _ in range(min(traffic.batch, arrived)):
                tokens = traffic.prompt * rng.lognormvariate(0.0, traffic.spread)
                queries += tokens
                hits += tokens * min(max(rng.gauss(traffic.share, 0.03), 0.0), 1.0) if hit else 0.0
            arrived -= traffic.batch
    return round(queries), min(round(hits), round(queries)), requests


def _poisson(mean: float, rng: random.Random) -> int:
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), rng.random(), 0
    while product > limit:
        product *= rng.random()
        count += 1
    return count


@dataclass
class Run:
    """All states of one curve and its classifier."""

    states: list[CurveState]
    at_s: list[float]
    classifier: CurveClassifier

    def sequence(self) -> list[str]:
        """The states in order, repeats left out, with the cause where there is one."""
        names: list[str] = []
        for state in self.states:
            name = state.state + (f"({state.cause})" if state.cause else "")
            if not names or names[-1].partition("(")[0] != state.state:
                names.append(name)
            else:
                names[-1] = name
        return names

    def first(self, name: str, after_s: float = 0.0) -> float | None:
        """When a state was first entered."""
        return next((s.since_s for s in self.states if s.state == name and s.since_s > after_s), None)


def watch(traffic: Traffic, seed: int = 1, config: CurveConfig | None = None) -> Run:
    """Let a classifier watch a curve."""
    classifier = CurveClassifier(config) if config else CurveClassifier()
    run = Run([], [], classifier)
    for scrape in scrapes(traffic, seed):
        run.states.append(classifier.observe(scrape.interval, scrape.sample, scrape.at_s, scrape.cuts))
        run.at_s.append(scrape.at_s)
    return run


def warm_up(level: float, warm_s: float, from_s: float = 0.0) -> Shape:
    """A rate that climbs from ``from_s`` on with the time constant ``warm_s``."""
    return lambda t: 0.0 if t < from_s else level * (1 - math.exp(-(t - from_s) / warm_s))


def pieces(*parts: tuple[float, float | Shape]) -> Shape:
    """A function of time made of pieces, each a number or a function, from a moment on."""

    def value(t: float) -> float:
        part = next(part for from_s, part in reversed(parts) if t >= from_s)
        return part(t) if callable(part) else part

    return value


@dataclass(frozen=True)
class Bench:
    """The generator, for test modules that cannot import it."""

    traffic: type[Traffic] = Traffic
    watch: Callable[..., Run] = watch
    scrapes: Callable[[Traffic, int], Iterator[Scrape]] = scrapes
    warm_up: Callable[..., Shape] = warm_up
    pieces: Callable[..., Shape] = pieces


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench()
