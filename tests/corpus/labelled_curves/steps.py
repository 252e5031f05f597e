"""Kinds of curves that step down and stay there, swing, never rise, or stand still."""

from collections.abc import Callable

import numpy as np

from hitcurve.reading import Cause
from labelled_curves.assembly import labelled
from labelled_curves.evidence import requests_to_tell, scrapes_for
from labelled_curves.records import Incident, LabelledCurve, Stretch
from labelled_curves.setting import a_setting, first_truth
from labelled_curves.shapes import climb, pieces, sawtooth, square
from labelled_curves.signals import signals_of
from labelled_curves.traffic import always, good_scrape

__all__ = ["STEPS"]

_LASTING_SCRAPES, _LASTING_S = 6, 12.0
"""A step has to last, by definition: four scrapes and 10 s, counted from whole scrapes."""


def step_down(rng: np.random.Generator) -> LabelledCurve:
    """A lasting step to 0.55 ... 0.75 of the level, with the signals of its cause; half of them recover."""
    setting = a_setting(rng, least_per_scrape=5.0, levels=(0.6, 0.95))
    event_s = setting.settled_s + float(rng.uniform(20, 60)) * setting.scrape_s
    after = setting.level * float(rng.uniform(0.55, 0.75))
    noise = max(setting.noise, setting.noise_at(after))
    needed = requests_to_tell(setting.level, after, setting.qps, noise)
    number = max(scrapes_for(needed, setting.per_scrape, _LASTING_SCRAPES), int(_LASTING_S / setting.scrape_s) + 2)
    lasts = (2 * number + 30) * setting.scrape_s
    recovers = bool(rng.random() < 0.5)
    back_s = event_s + lasts
    seconds = back_s + (2 * number + 30) * setting.scrape_s if recovers else back_s
    parts = [(0.0, setting.warm_up()), (event_s, after), *([(back_s, setting.level)] if recovers else [])]
    cause: Cause = rng.choice(["pool_pressure", "lora_churn", "traffic_shift", "unknown"])
    traffic = setting.traffic(pieces(*parts), seconds, **signals_of(cause, setting, event_s, back_s))
    late = good_scrape(traffic, event_s, number - 1)
    truth = [*first_truth(setting), Stretch(event_s, "degraded", late, frozenset({"collapsed", "warming"}))]
    accepted_s = event_s + 3500.0
    if seconds > accepted_s:
        truth.append(Stretch(accepted_s, "steady", seconds, frozenset({"degraded", "warming"})))
    if recovers:
        late = good_scrape(traffic, back_s, number)
        if back_s > accepted_s:
            # Nothing is left to come back to: the level before is a new one, to be proven flat like any other.
            late += setting.proof_s
        truth = [part for part in truth if part.from_s < back_s]
        truth.append(Stretch(back_s, "steady", late, frozenset({"degraded", "warming"})))
    names = frozenset({"degraded"})
    return labelled(
        f"step down, {cause}",
        setting,
        traffic,
        truth,
        [Incident("step down", event_s, names, frozenset({cause}), number)],
    )


def swings(rng: np.random.Generator) -> LabelledCurve:
    """Falls again and again: blocks are evicted as soon as they are built. Named from the third fall on, or from
    the second where evictions or fresh adapters say what is going on."""
    saw = bool(rng.random() < 0.4)
    while True:
        setting = a_setting(rng, least_per_scrape=8.0, levels=(0.6, 0.95))
        low = setting.level * float(rng.uniform(0.1, 0.4))
        noise = max(setting.noise, setting.noise_at((setting.level + low) / 2))
        needed = requests_to_tell(setting.level, low, setting.qps, noise)
        half = scrapes_for(needed, setting.per_scrape, 2)
        # A sawtooth is low for a quarter of its period.
        period_s = float(rng.uniform(1.0, 1.5)) * (5 if saw else 2) * half * setting.scrape_s
        if period_s <= max(20 * setting.scrape_s, 600.0):
            break
    event_s = setting.settled_s + float(rng.uniform(20, 60)) * setting.scrape_s
    stop_s = event_s + 8 * period_s
    quiet_s = 3 * period_s + 2 * setting.proof_s
    seconds = stop_s + quiet_s + 30 * setting.scrape_s
    shape = (sawtooth if saw else square)(setting.level, low, period_s, event_s)
    rate = pieces((0.0, setting.warm_up()), (event_s, shape), (stop_s, setting.level))
    cause: Cause = rng.choice(["pool_pressure", "lora_churn", "unknown"])
    traffic = setting.traffic(rate, seconds, **signals_of(cause, setting, event_s, stop_s))
    # By definition five turns: the third fall. The fall itself takes up to half a period to be proven.
    third_s = event_s + 2.6 * period_s
    any_name = frozenset({"steady", "degraded", "collapsed", "warming"})
    truth = [
        *first_truth(setting),
        Stretch(event_s, "oscillating", third_s, any_name),
        Stretch(stop_s, "steady", stop_s + quiet_s, frozenset({"warming", "oscillating"})),
    ]
    incident = Incident(
        "swings",
        event_s,
        frozenset({"oscillating"}),
        frozenset({cause}),
        scrapes_for(third_s - event_s, setting.scrape_s),
        periods_s=period_s,
    )
    return labelled(f"swings, {cause}", setting, traffic, truth, [incident])


def low(rng: np.random.Generator) -> LabelledCurve:
    """Enough traffic to have warmed, and still almost nothing."""
    setting = a_setting(rng, least_per_scrape=1.0)
    level = float(rng.uniform(0.0, 0.04))
    cause: Cause = rng.choice(["short_prefix", "isolation", "pool_pressure", "lora_churn", "unknown"])
    noise = max(setting.noise_at(0.05), 1.0)
    owed_s = max(setting.low_s, 60 * noise / setting.qps) * 1.5 + 12 * setting.scrape_s
    rises = bool(rng.random() < 0.3)
    rise_s = owed_s + 40 * setting.scrape_s
    parts = [(0.0, level)]
    seconds = rise_s
    truth = first_truth(setting)[:1]
    truth.append(Stretch(max(0.5, 0.9 * min(300.0, 200 / setting.qps)), "low", owed_s, frozenset({"cold"})))
    if rises:
        tau_s = 10 * setting.scrape_s
        parts.append((rise_s, climb(0.7, tau_s, rise_s)))
        left_s = rise_s + 0.5 * tau_s + scrapes_for(60 * setting.noise, setting.per_scrape) * setting.scrape_s
        flat_s = rise_s + 1.5 * 2.5 * tau_s + 2 * setting.proof_s
        if left_s < rise_s + 2.0 * tau_s:
            truth.append(Stretch(rise_s, "warming", left_s))
            truth.append(Stretch(rise_s + 2.0 * tau_s, "steady", flat_s, frozenset({"warming"})))
        else:
            truth.append(Stretch(rise_s, "steady", flat_s, frozenset({"low", "warming"})))
        seconds = flat_s + 30 * setting.scrape_s
    traffic = setting.traffic(pieces(*parts), seconds, **signals_of(cause, setting, 0.0, seconds))
    incident = Incident("low", 0.0, frozenset({"low"}), frozenset({cause}), scrapes_for(owed_s, setting.scrape_s))
    return labelled(f"low, {cause}", setting, traffic, truth, [incident])


def stalled(rng: np.random.Generator) -> LabelledCurve:
    """Requests wait and the counters stand still; then they move again."""
    setting = a_setting(rng, least_per_scrape=3.0)
    stop_s = setting.settled_s + float(rng.uniform(10, 30)) * setting.scrape_s
    back_s = stop_s + max(30 * setting.scrape_s, 60.0)
    qps = pieces((0.0, setting.qps), (stop_s, 0.0), (back_s, setting.qps))
    traffic = setting.traffic(
        setting.warm_up(),
        back_s + 30 * setting.scrape_s,
        qps=qps,
        waiting=pieces((0.0, 0.0), (stop_s, 4.0), (back_s, 0.0)),
    )
    late = max(good_scrape(traffic, stop_s, 2), good_scrape(traffic, stop_s + 10.0 + setting.scrape_s))
    truth = [
        *first_truth(setting),
        Stretch(stop_s, "stalled", late),
        Stretch(back_s, "steady", good_scrape(traffic, back_s + 3 / setting.qps)),
    ]
    number = int((late - stop_s) / setting.scrape_s) + 2
    incident = Incident("stall", stop_s, frozenset({"stalled"}), frozenset({"unknown"}), number)
    return labelled("stalled", setting, traffic, truth, [incident])


def stops(rng: np.random.Generator) -> LabelledCurve:
    """Traffic ends."""
    setting = a_setting(rng, least_per_scrape=1.0)
    stop_s = setting.settled_s + float(rng.uniform(10, 30)) * setting.scrape_s
    qps = pieces((0.0, setting.qps), (stop_s, 0.0))
    seconds = stop_s + max(50 * setting.scrape_s, 600.0)
    traffic = setting.traffic(setting.warm_up(), seconds, qps=qps)
    truth = [*first_truth(setting), Stretch(stop_s, "no_traffic", stop_s + 300.0 + 2 * setting.scrape_s)]
    return labelled("traffic ends", setting, traffic, truth)


def accelerates(rng: np.random.Generator) -> LabelledCurve:
    """Ten times the requests from one scrape to the next, at the same rate of hits."""
    setting = a_setting(rng, least_per_scrape=2.0)
    event_s = setting.settled_s + 20 * setting.scrape_s
    qps = pieces((0.0, setting.qps), (event_s, 10 * setting.qps))
    traffic = setting.traffic(setting.warm_up(), event_s + 100 * setting.scrape_s, qps=qps, evictions=always(2.0))
    return labelled("accelerates", setting, traffic, first_truth(setting))


STEPS: dict[Callable[[np.random.Generator], LabelledCurve], int] = {
    step_down: 16,
    swings: 12,
    low: 14,
    stalled: 7,
    stops: 6,
    accelerates: 3,
}
"""Kinds with their weights."""
