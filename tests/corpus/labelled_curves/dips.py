"""The truth about a curve that falls at once and may climb back: what can be proven when, scrape by scrape."""

from dataclasses import dataclass, field

import numpy as np

from labelled_curves.evidence import alarm_score, scrapes_for
from labelled_curves.records import Stretch
from labelled_curves.setting import FLAT, Setting
from labelled_curves.traffic import Traffic, good_scrape

__all__ = ["Dip", "dip_truth", "the_dip"]

_COLLAPSED, _RESET, _CLEAR = 0.4, 0.6, 0.1
"""Shares of the level before, as the design defines the states, and how far off them a curve is beyond doubt."""
_MARGIN = 2.0
_MOST_SCRAPES = 400


@dataclass(frozen=True, slots=True)
class Dip:
    """A fall at ``event_s``. Times are those of good scrapes, seconds since the start."""

    event_s: float
    proven_scrapes: int | None
    """Good scrapes, the one with the event included, until the fall can be proven; ``None`` where it never can."""
    visible: bool | None
    """Whether the next two scrapes lie clearly below 0.6 of the level; ``None`` where that is up to chance."""
    climbs_s: float
    """When the true rate is clearly above 0.4 of the level again."""
    rises_s: float
    """The last moment at which it is clearly below that."""
    back_s: float
    """When it is within ``FLAT`` of the level again."""
    rates: list[float] = field(default_factory=list)
    shares: tuple[float, float] = (0.0, 0.0)
    """What one request in each of the first two good scrapes brings of the evidence for ``collapsed``; zero where
    neither lies clearly below 0.4 of the level: only later ones show whether it climbs (``warming``) or lasts
    (``degraded``)."""


def the_dip(setting: Setting, traffic: Traffic, event_s: float, level: float, end_s: float) -> Dip:
    """What the true rate of ``traffic`` allows to know of its fall at ``event_s``."""
    fine = np.linspace(event_s, end_s, 4000)
    rate = traffic.rate(fine)
    above = fine[rate >= (_COLLAPSED + _CLEAR) * level]
    below = fine[rate <= (_COLLAPSED - _CLEAR) * level]
    near = fine[rate >= level - FLAT]
    proven: int | None = None
    score, rates = 0.0, []
    before_s = event_s // setting.scrape_s * setting.scrape_s
    for number in range(1, _MOST_SCRAPES):
        at_s = good_scrape(traffic, event_s, number)
        if at_s > end_s:
            break
        points = np.linspace(before_s, at_s, 64)
        seen = _seen(traffic, before_s, at_s)
        rates.append(seen)
        requests = float(np.mean(traffic.qps(points))) * (at_s - before_s)
        score += max(requests * _gain(seen, level) / setting.noise_at(level), -score)
        before_s = at_s
        if score >= _MARGIN * alarm_score(setting.qps):
            proven = number
            break
        if seen >= level - FLAT:
            break
    return Dip(
        event_s,
        proven,
        _visible(setting, level, rates[:2]),
        float(above[0]) if len(above) else end_s,
        float(below[-1]) if len(below) else event_s,
        float(near[0]) if len(near) else end_s,
        rates,
        _shares(setting, traffic, event_s, level),
    )


def _shares(setting: Setting, traffic: Traffic, event_s: float, level: float) -> tuple[float, float]:
    needed = _MARGIN * alarm_score(setting.qps) * setting.noise_at(level)
    first_s, second_s = good_scrape(traffic, event_s), good_scrape(traffic, event_s, 2)
    before_s = event_s // setting.scrape_s * setting.scrape_s
    first, second = _seen(traffic, before_s, first_s), _seen(traffic, first_s, second_s)
    if min(first, second) + 2 * _error(setting, level) >= _COLLAPSED * level:
        return 0.0, 0.0
    return max(_gain(first, level), 0.0) / needed, max(_gain(second, level), 0.0) / needed


def _seen(traffic: Traffic, from_s: float, to_s: float) -> float:
    """The rate of a scrape, as it is on average."""
    points = np.linspace(from_s, to_s, 64)
    return float(np.average(traffic.rate(points), weights=traffic.qps(points) + 1e-12))


def _error(setting: Setting, level: float) -> float:
    return float(np.sqrt(setting.noise_at(level) * level * (1 - level) / setting.per_scrape)) + 0.02


def _gain(rate: float, level: float) -> float:
    """Evidence of one request for "a tenth of the level" against the level."""
    p, q = min(level, 0.98), max(0.1 * level, 0.02)
    return rate * np.log(q / p) + (1 - rate) * np.log((1 - q) / (1 - p))


def _visible(setting: Setting, level: float, rates: list[float]) -> bool | None:
    lowest = min(rates)
    error = _error(setting, level)
    if lowest + 2 * error < _RESET * level:
        return True
    if min(lowest, *rates) - 3 * error > _RESET * level:
        return False
    return None


def dip_truth(setting: Setting, traffic: Traffic, dip: Dip, *, told: bool) -> list[Stretch]:
    """Collapsed, warming, steady, as far as each can be known."""
    first = good_scrape(traffic, dip.event_s)
    flat_s = dip.back_s + 0.5 * (dip.back_s - dip.event_s) + setting.proof_s
    named = {"collapsed", "warming"}
    if told and dip.visible is False:
        return [Stretch(dip.event_s, "steady", flat_s, frozenset({"warming"}))]
    late = first if told else good_scrape(traffic, dip.event_s, max(1, (dip.proven_scrapes or 1) - 1))
    late = max(late, first)
    if not told and dip.proven_scrapes is None:
        return [Stretch(dip.event_s, "steady", flat_s, frozenset({*named, "degraded"}))]
    grace = named if told else {*named, "degraded"}
    truth = []
    sure_collapse = dip.visible or not told
    if dip.rises_s > late and sure_collapse:
        truth.append(Stretch(dip.event_s, "collapsed", late, frozenset(grace)))
        eight_s = scrapes_for(16 * max(setting.noise, 1.0), setting.per_scrape, 2) * setting.scrape_s
        climbing_s = min(dip.climbs_s + eight_s, flat_s)
        if dip.back_s > climbing_s:
            truth.append(Stretch(dip.rises_s, "warming", climbing_s, frozenset({"collapsed"})))
            truth.append(Stretch(dip.back_s, "steady", flat_s, frozenset({"warming"})))
        else:
            truth.append(Stretch(dip.rises_s, "steady", flat_s, frozenset(named)))
        return truth
    # Brief: it climbs again before two scrapes are over. What it reads meanwhile is one of several right names.
    if dip.back_s > late:
        truth.append(
            Stretch(dip.event_s, "warming", max(late, dip.climbs_s), frozenset(grace), frozenset({"collapsed"}))
        )
        truth.append(Stretch(dip.back_s, "steady", flat_s, frozenset({"warming", "collapsed"})))
    else:
        truth.append(Stretch(dip.event_s, "steady", flat_s, frozenset(grace)))
    return truth
