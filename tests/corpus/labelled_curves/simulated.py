"""Kinds of curves from the simulator: what happens to a real cache, labelled with hindsight.

The true rate is measured: sums over so many scrapes around each one that they hold 200 requests, never over an
event. Where the new level lies and when it is reached comes from the whole of the run; what can be known when
comes from the same rules of evidence as for the other curves. Longer than 300 lines because each kind is a few
lines of its own.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hitcurve.reading import Cause, StateName
from labelled_curves.dips import dip_truth, the_dip
from labelled_curves.evidence import requests_to_tell, scrapes_for
from labelled_curves.records import Incident, LabelledCurve, Stretch
from labelled_curves.setting import FLAT, Setting
from labelled_curves.simulated_engine import Mix, Played, Script, play
from labelled_curves.traffic import START_S, Traffic

__all__ = ["SIMULATED"]

_BEFORE, _AFTER = 90, 100
_SMOOTH_REQUESTS = 200


class _Run:
    """A played script and the true rates in it. ``events`` are times over which nothing is smoothed."""

    def __init__(self, script: Script, rng: np.random.Generator, events: Sequence[float]) -> None:
        self.script, self.played = script, play(script, rng)
        self.rates = _smoothed(script, self.played, events)
        level = self.level(0.0, events[0] if events else self.end_s)
        request_share = min(1.0, level + 0.1)
        self.setting = Setting(rng, script.qps, script.scrape_s, level, request_share, 0.3, 1, True, 0.0)

    @property
    def end_s(self) -> float:
        return self.script.scrapes * self.script.scrape_s

    def level(self, from_s: float, to_s: float) -> float:
        """Ratio of sums over the last half of a stretch."""
        first, last = (round(t / self.script.scrape_s) for t in ((from_s + to_s) / 2, to_s))
        queries = sum(self.played.queries[first:last])
        return sum(self.played.hits[first:last]) / queries if queries else 0.0

    def reached_s(self, from_s: float, level: float) -> float:
        """When the rate is first within ``FLAT`` of a level."""
        first = int(from_s / self.script.scrape_s) + 1
        near = np.flatnonzero(np.abs(self.rates[first:] - level) <= FLAT)
        return (first + int(near[0]) + 1) * self.script.scrape_s if len(near) else self.end_s

    def traffic(self) -> Traffic:
        """The measured rate as a shape."""
        last, scrape_s = len(self.rates) - 1, self.script.scrape_s
        return self.setting.traffic(lambda t: self.rates[np.clip((t / scrape_s).astype(int), 0, last)], self.end_s)

    def first_truth(self) -> list[Stretch]:
        warm_s = self.reached_s(0.0, self.setting.level)
        owed_s = 1.5 * warm_s + self.setting.proof_s
        return [
            Stretch(-1.0, "cold", -1.0),
            Stretch(0.5 * self.script.scrape_s, "steady", owed_s, frozenset({"cold", "warming"})),
        ]

    def labelled(self, kind: str, truth: Sequence[Stretch], incidents: Sequence[Incident] = ()) -> LabelledCurve:
        return LabelledCurve(
            kind=f"simulator: {kind}",
            source="simulator",
            seed=0,
            qps=self.script.qps,
            scrape_s=self.script.scrape_s,
            scrapes=self.played.scrapes,
            truth=[replace(p, from_s=START_S + p.from_s, grace_to_s=START_S + p.grace_to_s) for p in truth],
            incidents=[replace(incident, at_s=START_S + incident.at_s) for incident in incidents],
        )


def _smoothed(script: Script, played: Played, events: Sequence[float]) -> np.ndarray:
    edges = [0, *(int(t / script.scrape_s) for t in events), script.scrapes]
    wide = max(1, round(_SMOOTH_REQUESTS / (script.qps * script.scrape_s)) // 2)
    rates = np.zeros(script.scrapes)
    for first, last in itertools.pairwise(edges):
        for index in range(first, last):
            part = slice(max(first, index - wide), min(last, index + wide + 1))
            queries = sum(played.queries[part])
            rates[index] = sum(played.hits[part]) / queries if queries else rates[index - 1]
    return rates


def _script(
    rng: np.random.Generator, mixes: Sequence[tuple[float, Mix]], pool_blocks: int, **other: object
) -> Script:
    scrape_s = float(rng.choice([1.0, 15.0, 30.0]))
    return Script(
        qps=float(rng.uniform(15, 45)) / scrape_s,
        scrape_s=scrape_s,
        scrapes=_BEFORE + _AFTER,
        pool_blocks=pool_blocks,
        mixes=[(from_s * scrape_s, mix) for from_s, mix in mixes],
        **other,  # type: ignore[arg-type]
    )


def _mix(rng: np.random.Generator) -> Mix:
    return Mix(groups=int(rng.integers(5, 40)), prefix=int(rng.integers(6, 14)), tail=int(rng.integers(1, 4)))


def _event(rng: np.random.Generator) -> float:
    """An event at some scrape, in scrapes."""
    return _BEFORE + float(rng.uniform(0, 1))


def warm(rng: np.random.Generator) -> LabelledCurve:
    """Everything fits."""
    mix = _mix(rng)
    run = _Run(_script(rng, [(0.0, mix)], 4000, patched=bool(rng.random() < 0.5)), rng, ())
    return run.labelled("warm", run.first_truth())


def _reset(rng: np.random.Generator, told_by: str) -> LabelledCurve:
    mix, event = _mix(rng), _event(rng)
    script = _script(rng, [(0.0, mix)], 4000, told_by=told_by)
    event_s = event * script.scrape_s
    run = _Run(replace(script, resets=(event_s,)), rng, (event_s,))
    dip = the_dip(run.setting, run.traffic(), event_s, run.setting.level, run.end_s)
    told = told_by != "nothing"
    truth = [*run.first_truth(), *dip_truth(run.setting, run.traffic(), dip, told=told)]
    names: set[StateName] = {"collapsed", "warming"} if told else {"collapsed", "warming", "degraded"}
    incident = Incident(
        "reset, told" if told else "reset, untold",
        event_s,
        frozenset(names),
        frozenset({"reset" if told else "unknown"}),
        max(2, 2 if told else dip.proven_scrapes or 2),
        owed=told or dip.proven_scrapes is not None,
        shares=None if told else dip.shares,
    )
    return run.labelled(f"reset told by {told_by}", truth, [incident])


def reset_told(rng: np.random.Generator) -> LabelledCurve:
    """A reset that somebody tells, or that the engine counts."""
    return _reset(rng, str(rng.choice(["mark", "counter"])))


def reset_untold(rng: np.random.Generator) -> LabelledCurve:
    """A reset that nothing tells."""
    return _reset(rng, "nothing")


def restart(rng: np.random.Generator) -> LabelledCurve:
    """Another process, with an empty cache."""
    mix, event = _mix(rng), _event(rng)
    script = _script(rng, [(0.0, mix)], 4000)
    event_s = event * script.scrape_s
    run = _Run(replace(script, restarts=(event_s,)), rng, (event_s,))
    first_s = np.ceil(event) * script.scrape_s
    warm_s = run.reached_s(event_s, run.setting.level) - event_s
    owed_s = event_s + 1.5 * warm_s + run.setting.proof_s
    truth = [
        *run.first_truth(),
        Stretch(event_s, "cold", event_s),
        Stretch(first_s, "steady", owed_s, frozenset({"cold", "warming"})),
    ]
    incident = Incident("restart", event_s, frozenset({"cold"}), frozenset({"restart"}), 2)
    return run.labelled("restart", truth, [incident])


def _fall(kind: str, run: _Run, event_s: float, causes: frozenset[Cause]) -> LabelledCurve:
    """A fall to another level, by whatever way: what it has to read once it is flat there."""
    before, after = run.setting.level, run.level(event_s, run.end_s)
    if after > 0.8 * before:
        return run.labelled(f"{kind}, hardly", [*run.first_truth(), Stretch(event_s, "steady", run.end_s, _ANY)])
    state: StateName = "collapsed" if after <= 0.35 * before else "degraded"
    both: frozenset[StateName] = (
        frozenset({"collapsed", "degraded"}) if 0.25 < after / before < 0.5 else frozenset()
    )
    needed = requests_to_tell(before, after, run.script.qps, max(run.setting.noise, 1.0))
    number = scrapes_for(needed, run.setting.per_scrape, 6)
    flat_s = run.reached_s(event_s, after)
    owed_s = event_s + 1.5 * (flat_s - event_s) + max(number * run.script.scrape_s, 12.0)
    if state == "degraded" and _dips(run, event_s, after):
        owed_s += run.setting.proof_s
    truth = [*run.first_truth(), Stretch(event_s, state, owed_s, _ANY, both)]
    in_scrapes = scrapes_for(owed_s - event_s, run.script.scrape_s)
    return run.labelled(kind, truth, [Incident(kind, event_s, frozenset({state}) | both, causes, in_scrapes)])


def _dips(run: _Run, event_s: float, after: float) -> bool:
    """Whether it falls deeper at first and climbs to its new level."""
    first = int(event_s / run.script.scrape_s)
    return bool(min(run.rates[first : first + 20]) < after - FLAT)


_ANY: frozenset[StateName] = frozenset({"steady", "degraded", "collapsed", "warming"})


def pressure(rng: np.random.Generator) -> LabelledCurve:
    """The working set outgrows the pool."""
    mix, event = _mix(rng), _event(rng)
    pool = int(mix.groups * mix.prefix * rng.uniform(1.8, 2.5)) + 60
    more = replace(mix, groups=int(mix.groups * rng.uniform(3.0, 5.0)))
    script = _script(rng, [(0.0, mix), (event, more)], pool)
    event_s = event * script.scrape_s
    return _fall("pool pressure", _Run(script, rng, (event_s,)), event_s, frozenset({"pool_pressure"}))


def churn(rng: np.random.Generator) -> LabelledCurve:
    """A share of the requests brings adapters that nobody used before."""
    mix, event = replace(_mix(rng), adapters=("support", "legal")), _event(rng)
    churned = replace(mix, fresh=float(rng.uniform(0.35, 0.6)))
    script = _script(rng, [(0.0, mix), (event, churned)], 40_000)
    event_s = event * script.scrape_s
    return _fall("adapter churn", _Run(script, rng, (event_s,)), event_s, frozenset({"lora_churn"}))


def shift(rng: np.random.Generator) -> LabelledCurve:
    """Other prefixes from one moment on, in a pool that holds them all: like a reset, but the old ones stay."""
    mix, event = _mix(rng), _event(rng)
    script = _script(rng, [(0.0, mix), (event, replace(mix, first_group=5000))], 40_000)
    event_s = event * script.scrape_s
    run = _Run(script, rng, (event_s,))
    dip = the_dip(run.setting, run.traffic(), event_s, run.setting.level, run.end_s)
    truth = [*run.first_truth(), *dip_truth(run.setting, run.traffic(), dip, told=False)]
    incident = Incident(
        "new prefixes",
        event_s,
        frozenset({"collapsed", "warming", "degraded"}),
        frozenset({"unknown", "traffic_shift"}),
        max(2, dip.proven_scrapes or 2),
        owed=dip.proven_scrapes is not None,
        shares=dip.shares,
    )
    return run.labelled("new prefixes", truth, [incident])


def broken(rng: np.random.Generator) -> LabelledCurve:
    """The cache finds nothing any more."""
    mix, event = _mix(rng), _event(rng)
    script = _script(rng, [(0.0, mix)], 4000, patched=False)
    event_s = event * script.scrape_s
    run = _Run(replace(script, broken_s=event_s), rng, (event_s,))
    needed = requests_to_tell(run.setting.level, 0.0, script.qps, run.setting.noise)
    number = scrapes_for(needed, run.setting.per_scrape)
    late_s = (np.ceil(event) + number - 2) * script.scrape_s
    truth = [*run.first_truth(), Stretch(event_s, "collapsed", late_s, _ANY)]
    names: frozenset[StateName] = frozenset({"collapsed"})
    incident = Incident("collapse", event_s, names, frozenset({"unknown"}), number, shares=(0.0, 1.0 / needed))
    return run.labelled("broken", truth, [incident])


def thrash(rng: np.random.Generator) -> LabelledCurve:
    """Scans of long prompts push everything out, again and again."""
    mix, event = _mix(rng), _event(rng)
    half = int(rng.integers(4, 8))
    scan = replace(mix, scan=0.8, scan_blocks=60)
    mixes = [(0.0, mix)]
    for turn in range(16):
        mixes.append((event + half * turn, mix if turn % 2 else scan))
    script = replace(_script(rng, mixes, 700), scrapes=_BEFORE + 16 * half + 1)
    event_s, period_s = event * script.scrape_s, 2 * half * script.scrape_s
    run = _Run(script, rng, (event_s,))
    third_s = event_s + 2.6 * period_s
    truth = [*run.first_truth(), Stretch(event_s, "oscillating", third_s, _ANY)]
    incident = Incident(
        "swings",
        event_s,
        frozenset({"oscillating"}),
        frozenset({"pool_pressure"}),
        scrapes_for(third_s - event_s, script.scrape_s),
        periods_s=period_s,
    )
    return run.labelled("thrash", truth, [incident])


def _low(kind: str, cause: Cause, mix: Mix, rng: np.random.Generator, **other: object) -> LabelledCurve:
    script = _script(rng, [(0.0, mix)], 6000, **other)
    owed_s = 1.5 * max(300.0, 200 / script.qps, 90 / script.qps) + 12 * script.scrape_s
    script = replace(script, scrapes=int(owed_s / script.scrape_s) + 60)
    if script.scrapes * script.qps * script.scrape_s > 15_000:
        script = replace(script, qps=15_000 / (script.scrapes * script.scrape_s))
    run = _Run(script, rng, ())
    owed_s = 1.5 * max(300.0, 200 / script.qps, 90 / script.qps) + 12 * script.scrape_s
    truth = [
        Stretch(-1.0, "cold", -1.0),
        Stretch(max(0.5, 0.9 * min(300.0, 200 / script.qps)), "low", owed_s, frozenset({"cold"})),
    ]
    incident = Incident("low", 0.0, frozenset({"low"}), frozenset({cause}), scrapes_for(owed_s, script.scrape_s))
    return run.labelled(kind, truth, [incident])


def isolated(rng: np.random.Generator) -> LabelledCurve:
    """Every request has a salt of its own."""
    mix = replace(_mix(rng), adapters=("support", "legal", "code"), salted=True)
    return _low("isolated", "isolation", mix, rng)


def short(rng: np.random.Generator) -> LabelledCurve:
    """Prompts shorter than one block."""
    return _low("short prefix", "short_prefix", _mix(rng), rng, block_size=784)


def night(rng: np.random.Generator) -> LabelledCurve:
    """No traffic for long; the cache is as it was."""
    mix = _mix(rng)
    script = _script(rng, [(0.0, mix)], 4000)
    silent = max(50, int(3600 / script.scrape_s)) if script.scrape_s > 1 else 700
    mixes = [
        (0.0, mix),
        (_BEFORE * script.scrape_s, replace(mix, qps=0.0)),
        ((_BEFORE + silent) * script.scrape_s, mix),
    ]
    script = replace(script, mixes=mixes, scrapes=_BEFORE + silent + 60)
    stop_s, back_s = mixes[1][0], mixes[2][0]
    run = _Run(script, rng, (stop_s, back_s))
    truth = [
        *run.first_truth(),
        Stretch(stop_s, "no_traffic", stop_s + 300.0 + 2 * script.scrape_s),
        Stretch(back_s, "steady", back_s + 3 * script.scrape_s),
    ]
    return run.labelled("night", truth)


SIMULATED: dict[Callable[[np.random.Generator], LabelledCurve], int] = {
    warm: 4,
    reset_told: 4,
    reset_untold: 4,
    restart: 3,
    pressure: 5,
    churn: 4,
    shift: 3,
    broken: 3,
    thrash: 4,
    isolated: 2,
    short: 2,
    night: 2,
}
"""Kinds with their weights."""
