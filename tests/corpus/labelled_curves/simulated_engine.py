"""Traffic through the real cache rules of vLLM, one request at a time, counted into the counters of an engine."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hitcurve.reading import CutKind
from hitcurve.sample import AdapterActivity, EngineSample, LookupCounters
from hitcurve_simulator.vllm import CacheManager, Request
from labelled_curves.records import Scrape
from labelled_curves.traffic import START_S

__all__ = ["Mix", "Played", "Script", "play"]


@dataclass(frozen=True, slots=True)
class Mix:
    """What is asked for: ``groups`` of requests share ``prefix`` blocks each and bring ``tail`` of their own.

    ``scan`` is the share of requests that have nothing in common with any other, ``scan_blocks`` long.
    ``fresh`` is the share that comes with an adapter nobody used before, ``adapters`` those used else.
    """

    groups: int
    prefix: int
    tail: int
    first_group: int = 0
    scan: float = 0.0
    scan_blocks: int = 0
    fresh: float = 0.0
    adapters: tuple[str, ...] = ()
    salted: bool = False
    qps: float | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A run. ``mixes`` begin at their times; the cache is off from ``broken_s`` on."""

    qps: float
    scrape_s: float
    scrapes: int
    pool_blocks: int
    mixes: Sequence[tuple[float, Mix]]
    block_size: int = 16
    resets: tuple[float, ...] = ()
    told_by: str = "mark"
    restarts: tuple[float, ...] = ()
    broken_s: float = float("inf")
    patched: bool = True

    def mix_at(self, t: float) -> Mix:
        return next(mix for from_s, mix in reversed(self.mixes) if t >= from_s)


@dataclass(slots=True)
class Played:
    """The scrapes of a run, and requests, queries and hits of each."""

    scrapes: list[Scrape] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    queries: list[float] = field(default_factory=list)
    hits: list[float] = field(default_factory=list)


class _Evictions:
    """Counts evictions; an observer of the cache."""

    def __init__(self) -> None:
        self.count = 0

    def evicted(self, key: Hashable, gone: bool, request_id: str) -> None:
        self.count += 1

    def _nothing(self, *_: object) -> None: ...

    looked_up = scheduled = stored = preempted = finished = reset = _nothing


class _Engine:
    """A cache that starts empty, and its counters since then."""

    def __init__(self, script: Script, started_s: float) -> None:
        self.evictions = _Evictions()
        self.started_s = started_s
        self.queries = self.hits = self.requests = self.resets = 0
        self.manager = CacheManager(script.pool_blocks + 1, script.block_size, observer=self.evictions)

    def serve(
        self, contents: Sequence[Hashable], tokens: int, adapter: str | None, salt: str | None, on: bool
    ) -> None:
        manager = self.manager
        request = Request(
            str(self.requests), block_contents=contents, prompt_length=tokens, adapter=adapter, cache_salt=salt
        )
        state = manager.track(request)
        found = manager.lookup(state) if on else []
        manager.admit(state, tokens - len(found) * manager.block_size, found)
        manager.free(state)
        self.requests += 1
        self.queries += tokens
        self.hits += len(found) * manager.block_size

    def reset(self) -> None:
        self.manager.reset_prefix_cache()
        self.resets += 1


def play(script: Script, rng: np.random.Generator) -> Played:
    """Run the script; events come between two requests."""
    engine = _Engine(script, -30.0)
    played, fresh = Played(), 0
    events = sorted([(t, "reset") for t in script.resets] + [(t, "restart") for t in script.restarts])
    played.scrapes.append(Scrape(START_S, _sample(script, engine, 0.0, ())))
    unique = 1 << 40
    for index in range(script.scrapes):
        from_s, to_s = index * script.scrape_s, (index + 1) * script.scrape_s
        qps = script.mix_at(from_s).qps
        arrivals = np.sort(
            rng.uniform(from_s, to_s, rng.poisson((script.qps if qps is None else qps) * script.scrape_s))
        )
        marks: tuple[CutKind, ...] = ()
        seen = [0, 0, 0]
        adapters: dict[str, None] = {}
        for at_s in [*arrivals.tolist(), to_s]:
            while events and events[0][0] <= at_s:
                moment, kind = events.pop(0)
                if kind == "restart":
                    engine = _Engine(script, moment)
                else:
                    engine.reset()
                    marks = ("reset",) if script.told_by == "mark" else ()
            if at_s == to_s:
                break
            mix = script.mix_at(at_s)
            before = engine.queries, engine.hits
            adapter = str(rng.choice(mix.adapters)) if mix.adapters else None
            if mix.fresh and rng.random() < mix.fresh:
                fresh += 1
                adapter = f"fresh-{fresh}"
            if adapter:
                adapters[adapter] = None
            blocks = _contents(mix, unique, rng)
            unique += len(blocks)
            salt = str(unique) if mix.salted else None
            tokens = len(blocks) * script.block_size + 8 if script.block_size < 512 else len(blocks) * 16 + 8
            engine.serve(blocks if script.block_size < 512 else (), tokens, adapter, salt, at_s < script.broken_s)
            seen = [seen[0] + 1, seen[1] + engine.queries - before[0], seen[2] + engine.hits - before[1]]
        played.requests.append(seen[0])
        played.queries.append(seen[1])
        played.hits.append(seen[2])
        played.scrapes.append(Scrape(START_S + to_s, _sample(script, engine, to_s, tuple(adapters)[-4:]), marks))
    return played


def _contents(mix: Mix, unique: int, rng: np.random.Generator) -> list[int]:
    if mix.scan and rng.random() < mix.scan:
        return list(range(unique, unique + mix.scan_blocks))
    group = mix.first_group + int(rng.integers(mix.groups))
    shared = [group * 1000 + block for block in range(mix.prefix)]
    return [*shared, *range(unique, unique + mix.tail)]


def _sample(script: Script, engine: _Engine, at_s: float, adapters: tuple[str, ...]) -> EngineSample:
    return replace(
        _BLANK,
        at_s=START_S + at_s,
        monotonic_s=START_S + at_s,
        start_time_s=START_S + engine.started_s,
        lookups=LookupCounters(engine.queries, engine.hits, spelling="vllm:prefix_cache_queries_total"),
        requests=float(engine.requests),
        evictions=float(engine.evictions.count) if script.patched else None,
        preemptions=0.0,
        resets=float(engine.resets) if script.told_by == "counter" else None,
        kv_usage=0.2,
        waiting=0.0,
        adapters=AdapterActivity(adapters),
        block_size=script.block_size,
        pool_blocks=script.pool_blocks,
    )


_BLANK = EngineSample("0", START_S, START_S, labels={"engine": "0"})
