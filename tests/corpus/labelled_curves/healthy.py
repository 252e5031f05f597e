"""Kinds of curves on which nothing is wrong. None of them may ever read unhealthy."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from labelled_curves.assembly import labelled
from labelled_curves.records import LabelledCurve, Stretch
from labelled_curves.setting import Setting, a_setting, first_truth
from labelled_curves.shapes import daily, pieces
from labelled_curves.traffic import always, good_scrape

__all__ = ["HEALTHY"]

_AFTER = 150
"""Scrapes that follow once the curve has settled."""


def _seconds(setting: Setting, scrapes: int = _AFTER) -> float:
    return setting.settled_s + scrapes * setting.scrape_s


def flat(rng: np.random.Generator) -> LabelledCurve:
    """Any traffic, a warm-up, then one level."""
    setting = a_setting(rng, tau_scrapes=40.0)
    traffic = setting.traffic(setting.warm_up(), _seconds(setting))
    return labelled("healthy", setting, traffic, first_truth(setting))


def rare(rng: np.random.Generator) -> LabelledCurve:
    """A few requests a minute."""
    setting = a_setting(rng, least_per_scrape=0.3)
    while setting.qps > 0.3:
        setting = a_setting(rng, least_per_scrape=0.3)
    return labelled(
        "rare requests", setting, setting.traffic(setting.warm_up(), _seconds(setting)), first_truth(setting)
    )


def gaps(rng: np.random.Generator) -> LabelledCurve:
    """Every fourth scrape fails, some in a row."""
    setting = a_setting(rng)
    seconds = _seconds(setting)
    count = int(seconds / setting.scrape_s)
    first = int(rng.integers(3, count - 12))
    failed = setting.failed(count, 0.25) | frozenset(range(first, first + 8))
    truth = first_truth(setting)
    late = 1.5 * setting.settled_s
    truth[-1] = Stretch(truth[-1].from_s, "steady", late, truth[-1].also)
    traffic = setting.traffic(setting.warm_up(), seconds + 60 * setting.scrape_s, failed=failed)
    return labelled("scrape gaps", setting, traffic, truth)


def one_fate(rng: np.random.Generator) -> LabelledCurve:
    """Three to twenty requests in a row always hit or miss together."""
    setting = a_setting(rng, fates=(3, 5, 10, 20), least_per_scrape=5.0)
    return labelled(
        "one fate", setting, setting.traffic(setting.warm_up(), _seconds(setting)), first_truth(setting)
    )


def day(rng: np.random.Generator) -> LabelledCurve:
    """Traffic and hit rate that move with the time of day."""
    setting = replace(a_setting(rng, least_per_scrape=5.0, levels=(0.6, 0.85)), tau_s=0.0)
    phase = float(rng.uniform(0, 86_400))
    busy = float(rng.uniform(0.3, 0.9))
    rate = daily(setting.level, 0.06, phase)
    qps = lambda t: setting.qps * (1 + busy * np.sin((t + phase) * 2 * np.pi / 86_400.0))  # noqa: E731
    seconds = max(_seconds(setting), min(300 * setting.scrape_s, 30_000.0))
    truth = first_truth(setting)
    truth[-1] = Stretch(truth[-1].from_s, "steady", 2 * setting.settled_s, truth[-1].also)
    return labelled("diurnal", setting, setting.traffic(rate, seconds, qps=qps), truth)


def bursts(rng: np.random.Generator) -> LabelledCurve:
    """Fifteen times the usual requests for a while, whose first prompts miss a little more often."""
    setting = a_setting(rng, least_per_scrape=2.0)
    every, long = 40 * setting.scrape_s, 4 * setting.scrape_s
    begin = setting.settled_s
    in_burst = lambda t: (t > begin) & ((t - begin) % every < long)  # noqa: E731
    qps = lambda t: np.where(in_burst(t), 15.0, 1.0) * setting.qps  # noqa: E731
    shape = setting.warm_up()
    rate = lambda t: shape(t) - np.where(in_burst(t), 0.03, 0.0)  # noqa: E731
    traffic = setting.traffic(rate, _seconds(setting, 200), qps=qps)
    return labelled("bursts", setting, traffic, first_truth(setting))


def night(rng: np.random.Generator) -> LabelledCurve:
    """Hours without traffic; the baseline survives them, or the new day has to warm what is new."""
    setting = a_setting(rng, least_per_scrape=3.0)
    stop, back = setting.settled_s + 40 * setting.scrape_s, 0.0
    back = stop + max(3600.0, 40 * setting.scrape_s)
    qps = pieces((0.0, setting.qps), (stop, 0.0), (back, setting.qps))
    rate = setting.warm_up()
    fresh = bool(rng.random() < 0.5)
    if fresh:
        tau = float(rng.uniform(2, 6)) * setting.scrape_s
        rate = lambda t: np.where(  # noqa: E731
            t < back, setting.warm_up()(t), setting.level * (1 - 0.5 * np.exp(-np.maximum(t - back, 0) / tau))
        )
    seconds = back + 2 * setting.proof_s + 60 * setting.scrape_s
    traffic = setting.traffic(rate, seconds, qps=qps)
    silent_s = stop + min(max(300.0, 0.0), 300.0) + 2 * setting.scrape_s
    again = good_scrape(traffic, back + 3 / setting.qps)
    truth = [
        *first_truth(setting),
        Stretch(stop, "no_traffic", silent_s),
        Stretch(back, "steady", again + (2 * setting.proof_s if fresh else 0.0), frozenset({"warming"})),
    ]
    return labelled("night", setting, traffic, truth)


def adapters(rng: np.random.Generator) -> LabelledCurve:
    """A fixed set of adapters that come and go."""
    setting = a_setting(rng, least_per_scrape=3.0)
    names = tuple(f"adapter-{number}" for number in range(int(rng.integers(2, 12))))
    dice = np.random.default_rng(int(rng.integers(1 << 30)))

    def running(_: float) -> tuple[str, ...]:
        return tuple(name for name in names if dice.random() < 0.4)

    traffic = setting.traffic(setting.warm_up(), _seconds(setting), adapters=running)
    return labelled("mixed adapters", setting, traffic, first_truth(setting))


def slow_start(rng: np.random.Generator) -> LabelledCurve:
    """A warm-up of many scrapes."""
    setting = a_setting(rng, least_per_scrape=20.0, levels=(0.6, 0.95), tau_scrapes=40.0)
    while setting.tau_s < 8 * setting.scrape_s:
        setting = a_setting(rng, least_per_scrape=20.0, levels=(0.6, 0.95), tau_scrapes=40.0)
    return labelled(
        "slow warm-up", setting, setting.traffic(setting.warm_up(), _seconds(setting, 40)), first_truth(setting)
    )


def idle(rng: np.random.Generator) -> LabelledCurve:
    """Nothing is ever asked."""
    setting = a_setting(rng)
    traffic = setting.traffic(always(setting.level), 60 * setting.scrape_s, qps=always(0.0))
    truth = [Stretch(-1.0, "cold", -1.0), Stretch(0.5, "no_traffic", setting.scrape_s)]
    return labelled("never asked", setting, traffic, truth)


HEALTHY: dict[Callable[[np.random.Generator], LabelledCurve], int] = {
    flat: 14,
    rare: 6,
    gaps: 4,
    one_fate: 6,
    day: 4,
    bursts: 5,
    night: 6,
    adapters: 4,
    slow_start: 7,
    idle: 2,
}
"""Kinds with their weights."""
