"""What a curve of the corpus has in common with all others: traffic, noise, how it is scraped."""

import math
from dataclasses import dataclass

import numpy as np

from hitcurve.reading import StateName
from labelled_curves.evidence import flat_requests, scrapes_for
from labelled_curves.records import Stretch
from labelled_curves.shapes import climb
from labelled_curves.traffic import PROMPT, Shape, Traffic, always

__all__ = ["Setting", "a_setting", "first_truth"]

FLAT = 0.06
"""Below this distance from its final level a curve is no longer climbing; the definition of ``steady``."""
_FLAT_SCRAPES = 12
_LOW_RATE, _LOW_S, _LOW_REQUESTS = 0.10, 300.0, 200.0
_TOKENS_PER_REQUEST = 2000.0


@dataclass(frozen=True, slots=True)
class Setting:
    """Traffic of one curve. ``tau_s`` is the time constant of its warm-up."""

    rng: np.random.Generator
    qps: float
    scrape_s: float
    level: float
    share: float
    spread: float
    fate: int
    counted: bool
    tau_s: float

    @property
    def noise(self) -> float:
        """Variance of a request's hit share over that of an independent one of equal size that hits or misses."""
        return self.noise_at(self.level)

    def noise_at(self, rate: float) -> float:
        p = min(max(rate, 0.02), 0.98)
        chance = min(p / self.share, 1.0)
        by_fate = self.share**2 * chance * (1 - chance) / (p * (1 - p))
        return float(max(by_fate, 0.3) * np.exp(self.spread**2) * self.fate)

    @property
    def per_scrape(self) -> float:
        return self.qps * self.scrape_s

    @property
    def flat_at_s(self) -> float:
        """When the warm-up comes within ``FLAT`` of the level."""
        return self.tau_s * math.log(max(self.level / FLAT, 1.0))

    @property
    def proof_s(self) -> float:
        """How long it takes to prove a flat curve flat."""
        needed = flat_requests(self.level, self.noise)
        return scrapes_for(needed, self.per_scrape, _FLAT_SCRAPES) * self.scrape_s

    @property
    def settled_s(self) -> float:
        """From when on ``steady`` is owed: half as long again as it climbed, and the proof."""
        return 1.5 * self.flat_at_s + self.proof_s

    @property
    def low_s(self) -> float:
        """When a rate that never rose is ``low`` by definition: 5 min and 200 requests after the start, or as many
        tokens where the engine counts no requests."""
        requests = _LOW_REQUESTS if self.counted else _LOW_REQUESTS * _TOKENS_PER_REQUEST / PROMPT
        return max(_LOW_S, requests / self.qps)

    def warm_up(self) -> Shape:
        return climb(self.level, self.tau_s) if self.tau_s > 0 else always(self.level)

    def traffic(self, rate: Shape, seconds: float, **other: object) -> Traffic:
        """Traffic with the noise of this setting."""
        given = {"qps": always(self.qps), **other}
        return Traffic(
            rate=rate,
            seconds=seconds,
            scrape_s=self.scrape_s,
            share=self.share,
            spread=self.spread,
            fate=self.fate,
            counted=self.counted,
            **given,  # type: ignore[arg-type]
        )

    def failed(self, scrapes: int, chance: float) -> frozenset[int]:
        """Scrapes that fail, each with a chance; never the first two."""
        return frozenset(np.flatnonzero(self.rng.random(scrapes) < chance)[2:].tolist())


def a_setting(
    rng: np.random.Generator,
    *,
    least_per_scrape: float = 0.7,
    fates: tuple[int, ...] = (1, 1, 1, 1, 3),
    levels: tuple[float, float] = (0.5, 0.95),
    tau_scrapes: float = 10.0,
) -> Setting:
    """A setting drawn at random: 0.05 to 500 requests a second, scraped every 1 to 60 s."""
    while True:
        qps = float(10 ** rng.uniform(-1.3, 2.7))
        scrape_s = float(rng.choice([1.0, 5.0, 15.0, 15.0, 30.0, 60.0]))
        if qps * scrape_s >= least_per_scrape:
            break
    level = float(rng.uniform(*levels))
    share = float(rng.choice([1.0, min(1.0, level + 0.05)]))
    return Setting(
        rng=rng,
        qps=qps,
        scrape_s=scrape_s,
        level=level,
        share=share,
        spread=float(rng.choice([0.3, 0.8, 1.2])),
        fate=int(rng.choice(fates)),
        counted=bool(rng.random() < 0.7),
        tau_s=float(rng.choice([0.0, rng.uniform(0.3, tau_scrapes)])) * scrape_s,
    )


def first_truth(setting: Setting) -> list[Stretch]:
    """From the start to steady. Cold while nothing can be said, warming while a climb can be proven."""
    little_s = max(2 * setting.scrape_s, 3 / setting.qps)
    settled = setting.settled_s
    # Nothing was ever looked up before the first request comes.
    rare: frozenset[StateName] = frozenset({"no_traffic"}) if setting.per_scrape < 4 else frozenset()
    truth = [Stretch(-1.0, "cold", -1.0, lasting_also=rare)]
    proven_s = _climb_proven_s(setting)
    if proven_s is None:
        truth.append(Stretch(little_s, "steady", settled, frozenset({"cold", "warming"})))
        return truth
    little_s = min(little_s, proven_s / 2)
    truth.append(Stretch(little_s, "warming", proven_s, frozenset({"cold"} | _low_for_now(setting))))
    truth.append(Stretch(0.8 * setting.flat_at_s, "steady", settled, frozenset({"cold", "warming"})))
    return truth


def _low_for_now(setting: Setting) -> set[StateName]:
    """``low`` is right by definition while a climb that nobody can see yet has not left 0.10 after 5 min and 200
    requests."""
    return {"low"} if _mean_of_climb(setting, setting.low_s) <= _LOW_RATE else set()


def _climb_proven_s(setting: Setting) -> float | None:
    """When the newer half of all requests lies three standard errors and 0.08 above the older one, if ever before
    the climb is over."""
    if setting.tau_s <= 0:
        return None
    scrapes = int(0.8 * setting.flat_at_s / setting.scrape_s)
    for count in range(4, scrapes):
        whole, half = (_mean_of_climb(setting, part * setting.scrape_s) for part in (count, count / 2))
        rise = 2 * (whole - half)
        requests = setting.per_scrape * count / 2
        error = math.sqrt(2 * whole * (1 - whole) * setting.noise / requests + 4 * 0.02**2 / count)
        if rise > max(0.08, 3 * error):
            return count * setting.scrape_s
    return None


def _mean_of_climb(setting: Setting, seconds: float) -> float:
    x = seconds / setting.tau_s
    return setting.level * (1 - (1 - math.exp(-x)) / x)
