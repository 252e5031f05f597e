"""Kinds of curves with a restart or a reset, visible, half visible or not at all; and collapses that last."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hitcurve.reading import Cause, StateName
from labelled_curves.assembly import labelled
from labelled_curves.dips import Dip, dip_truth, the_dip
from labelled_curves.evidence import requests_to_tell, scrapes_for
from labelled_curves.records import Incident, LabelledCurve, Stretch
from labelled_curves.setting import Setting, a_setting, first_truth
from labelled_curves.shapes import climb, pieces
from labelled_curves.traffic import Traffic, good_scrape

__all__ = ["CUTS"]


def _event_s(setting: Setting) -> float:
    """Some time after the curve has settled, anywhere within a scrape."""
    return setting.settled_s + float(setting.rng.uniform(20, 60)) * setting.scrape_s


def _cleared(setting: Setting, event_s: float, tau_s: float) -> tuple[Traffic, float]:
    """Traffic whose rate is zero at the event and climbs back, long enough to settle again."""
    again = replace(setting, tau_s=tau_s)
    seconds = event_s + again.settled_s + 40 * setting.scrape_s
    shape = pieces((0.0, setting.warm_up()), (event_s, climb(setting.level, max(tau_s, 1e-3), event_s)))
    return setting.traffic(shape, seconds), seconds


def _reset(rng: np.random.Generator, told_by: str) -> LabelledCurve:
    setting = a_setting(rng, least_per_scrape=5.0)
    event_s = _event_s(setting)
    tau_s = float(rng.uniform(0.2, 12.0)) * setting.scrape_s
    traffic, seconds = _cleared(setting, event_s, tau_s)
    traffic = replace(traffic, resets=(event_s,), told_by=told_by)
    dip = the_dip(setting, traffic, event_s, setting.level, seconds)
    told = told_by != "nothing"
    truth = [*first_truth(setting), *dip_truth(setting, traffic, dip, told=told)]
    return labelled(f"reset, told by {told_by}", setting, traffic, truth, [_reset_incident(dip, told)])


def _reset_incident(dip: Dip, told: bool) -> Incident:
    names: set[StateName] = {"collapsed", "warming"}
    if told:
        return Incident("reset, told", dip.event_s, frozenset(names), frozenset({"reset"}), 2)
    names.add("degraded")
    owed = dip.proven_scrapes is not None
    number = max(2, dip.proven_scrapes or 2)
    causes: frozenset[Cause] = frozenset({"unknown"})
    return Incident("reset, untold", dip.event_s, frozenset(names), causes, number, owed=owed, shares=dip.shares)


def reset_marked(rng: np.random.Generator) -> LabelledCurve:
    """Somebody orders a reset and says so."""
    return _reset(rng, "mark")


def reset_counted(rng: np.random.Generator) -> LabelledCurve:
    """The engine counts its resets."""
    return _reset(rng, "counter")


def reset_untold(rng: np.random.Generator) -> LabelledCurve:
    """Nothing on the page tells."""
    return _reset(rng, "nothing")


def restart(rng: np.random.Generator) -> LabelledCurve:
    """The process is another one: both counters fall, or the start time alone tells."""
    setting = a_setting(rng, least_per_scrape=1.0)
    event_s = _event_s(setting)
    tau_s = float(rng.uniform(0.2, 12.0)) * setting.scrape_s
    traffic, _ = _cleared(setting, event_s, tau_s)
    traffic = replace(traffic, restarts=(event_s,), start_time=bool(rng.random() < 0.6))
    return _restarted("restart", setting, traffic, event_s, tau_s)


def restart_between(rng: np.random.Generator) -> LabelledCurve:
    """Scrapes fail until the counters of the new process have overtaken those of the old one: in queries alone
    (the hits are still fewer), or in both, where only the start time tells."""
    setting = replace(a_setting(rng, least_per_scrape=5.0), tau_s=0.0)
    event_s = float(rng.uniform(3.0, 8.0)) * setting.scrape_s
    both = bool(rng.random() < 0.5)
    tau_s = 0.1 * setting.scrape_s if both else 3.0 * event_s
    traffic, _ = _cleared(setting, event_s, tau_s)
    back = int(event_s / setting.scrape_s * (2.5 if both else 2.2)) + 2
    failed = frozenset(range(int(event_s / setting.scrape_s) + 1, back))
    traffic = replace(traffic, restarts=(event_s,), failed=failed, start_time=both)
    return _restarted("restart, overtaken", setting, traffic, event_s, tau_s)


def _restarted(kind: str, setting: Setting, traffic: Traffic, event_s: float, tau_s: float) -> LabelledCurve:
    first = good_scrape(traffic, event_s)
    after = replace(setting, tau_s=tau_s)
    truth = [part for part in first_truth(setting) if part.from_s < event_s]
    for number, part in enumerate(first_truth(after)):
        from_s = event_s if number == 0 else max(first, event_s + part.from_s)
        truth.append(replace(part, from_s=from_s, grace_to_s=event_s + part.grace_to_s))
    incident = Incident(kind, event_s, frozenset({"cold"}), frozenset({"restart"}), 2)
    return labelled(kind, setting, traffic, truth, [incident])


def collapse(rng: np.random.Generator) -> LabelledCurve:
    """The cache stops working, and works again after a while or not at all."""
    setting = a_setting(rng, least_per_scrape=5.0)
    event_s = _event_s(setting)
    after = float(rng.uniform(0.0, 0.05)) * setting.level
    needed = requests_to_tell(setting.level, after, setting.qps, setting.noise)
    number = scrapes_for(needed, setting.per_scrape)
    lasts = max(30, 3 * number) * setting.scrape_s
    back_s = event_s + lasts if rng.random() < 0.5 and lasts < 3000.0 else None
    parts = [(0.0, setting.warm_up()), (event_s, after)]
    if back_s is not None:
        tau_s = float(rng.uniform(2.0, 8.0)) * setting.scrape_s
        parts.append((back_s, climb(setting.level, tau_s, back_s, after)))
    seconds = event_s + lasts + (0.0 if back_s is None else 5 * tau_s + setting.proof_s + 30 * setting.scrape_s)
    pressed = rng.random() < 0.5
    cause: Cause = "pool_pressure" if pressed else "unknown"
    other = {"evictions": pieces((0.0, 1.0), (event_s, 40.0 if pressed else 1.0))}
    traffic = setting.traffic(pieces(*parts), seconds, **other)
    late = good_scrape(traffic, event_s, number - 1)
    accepted_s = event_s + 3500.0
    truth = [*first_truth(setting), Stretch(event_s, "collapsed", late, frozenset({"degraded"}))]
    if back_s is None and seconds > accepted_s:
        truth.append(Stretch(accepted_s, "low", seconds, frozenset({"collapsed"})))
    if back_s is not None:
        dip = replace(the_dip(setting, traffic, back_s, setting.level, seconds), proven_scrapes=1)
        truth += [part for part in dip_truth(setting, traffic, dip, told=False) if part.state != "collapsed"]
    names: frozenset[StateName] = frozenset({"collapsed"})
    # The first scrape may hold the event at its end, so it counts for nothing.
    incident = Incident("collapse", event_s, names, frozenset({cause}), number, shares=(0.0, 1.0 / needed))
    return labelled("collapse", setting, traffic, truth, [incident])


CUTS: dict[Callable[[np.random.Generator], LabelledCurve], int] = {
    reset_marked: 7,
    reset_counted: 5,
    reset_untold: 9,
    restart: 9,
    restart_between: 4,
    collapse: 12,
}
"""Kinds with their weights."""
