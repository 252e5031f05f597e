"""When requests are sent in an open loop: at scheduled times, whatever the engine does."""

import itertools
import math
import random
from collections.abc import Iterator
from typing import Literal

__all__ = ["ArrivalKind", "arrival_times"]

ArrivalKind = Literal["poisson", "constant", "bursty", "diurnal"]

_BURST = 8
"""Requests of a burst, on average."""
_SWING = 0.8
"""How far the rate of a day rises above and falls below its mean."""


def arrival_times(rate: float, kind: ArrivalKind, seed: int, *, day_s: float = 600.0) -> Iterator[float]:
    """Seconds since the start of the run, without end, ``rate`` per second on average.

    ``poisson`` has exponential gaps (many independent users), ``constant`` equal ones. ``bursty`` sends bursts of
    8 requests on average (geometric) at the same instant, with exponential gaps between bursts. ``diurnal`` is
    Poisson with a rate that follows a sine of the period ``day_s`` from 1.8 to 0.2 times ``rate``, beginning at
    the mean and rising.
    """
    source = random.Random(f"arrivals {seed}")
    match kind:
        case "constant":
            return (number / rate for number in itertools.count())
        case "poisson":
            return _poisson(rate, source)
        case "bursty":
            return _bursts(rate, source)
        case "diurnal":
            return _day(rate, source, day_s)


def _poisson(rate: float, source: random.Random) -> Iterator[float]:
    at_s = 0.0
    while True:
        yield at_s
        at_s += source.expovariate(rate)


def _bursts(rate: float, source: random.Random) -> Iterator[float]:
    for at_s in _poisson(rate / _BURST, source):
        yield at_s
        while source.random() >= 1 / _BURST:
            yield at_s


def _day(rate: float, source: random.Random, day_s: float) -> Iterator[float]:
    """Thins a Poisson process of the highest rate (Lewis and Shedler, 1979)."""
    for at_s in _poisson(rate * (1 + _SWING), source):
        share = (1 + _SWING * math.sin(2 * math.pi * at_s / day_s)) / (1 + _SWING)
        if source.random() < share:
            yield at_s
