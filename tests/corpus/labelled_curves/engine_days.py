"""Days of engines on which nothing happens, at one request a second and more: every alarm there is a false one."""

from collections.abc import Iterator

import numpy as np

from labelled_curves.assembly import labelled
from labelled_curves.records import LabelledCurve, Stretch
from labelled_curves.setting import Setting
from labelled_curves.shapes import daily
from labelled_curves.traffic import Floats

__all__ = ["engine_days"]

_DAY_S = 86_400.0
_FATES = (1, 1, 1, 3, 10)


def engine_days(days: int, seed: int) -> Iterator[LabelledCurve]:
    """One curve a day: levels of 0.3 to 0.95, 1 to 500 requests a second, scraped every 15 or 30 s; three in five
    with requests that hit or miss on their own, the others in threes or tens of one fate; prompts of equal to very
    unequal length; half with a daily swing of rate and traffic, a third with bursts of 15 times the usual
    traffic."""
    for number in range(days):
        rng = np.random.default_rng((seed, 7, number))
        level = float(rng.uniform(0.3, 0.95))
        setting = Setting(
            rng=rng,
            qps=float(10 ** rng.uniform(0.0, 2.7)),
            scrape_s=float(rng.choice([15.0, 30.0])),
            level=level,
            share=float(rng.choice([1.0, min(1.0, level + 0.05)])),
            spread=float(rng.choice([0.3, 0.8, 1.2])),
            fate=_FATES[number % len(_FATES)],
            counted=bool(rng.random() < 0.7),
            tau_s=0.0,
        )
        yield _day(setting)


def _day(setting: Setting) -> LabelledCurve:
    rng = setting.rng
    swing = 0.04 if rng.random() < 0.5 else 0.0
    phase, busy = float(rng.uniform(0, _DAY_S)), 0.6 if swing else 0.0
    burst_every = float(rng.choice([np.inf, np.inf, 2000.0]))

    def qps(t: Floats) -> Floats:
        wave = 1 + busy * np.sin((t + phase) * 2 * np.pi / _DAY_S)
        return (
            setting.qps
            * wave
            * np.where(np.mod(t, burst_every) < 60.0, 15.0 if burst_every < np.inf else 1.0, 1.0)
        )

    traffic = setting.traffic(daily(min(setting.level, 0.9), swing, phase), _DAY_S, qps=qps)
    truth = [Stretch(-1.0, "steady", setting.settled_s, frozenset({"cold", "warming"}))]
    kind = "on their own" if setting.fate == 1 else "one fate"
    return labelled(kind, setting, traffic, truth)
