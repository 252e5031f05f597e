"""When requests are sent in an open loop: at scheduled times, whatever the engine does."""

import random
from collections.abc import Iterator
from typing import Literal

__all__ = ["ArrivalKind", "arrival_times"]

ArrivalKind = Literal["poisson", "constant"]


def arrival_times(rate: float, kind: ArrivalKind, seed: int) -> Iterator[float]:
    """Seconds since the start of the run, without end, ``rate`` per second on average.

    ``poisson`` has exponential gaps (many independent users), ``constant`` equal ones.
    """
    source = random.Random(f"arrivals {seed}")
    at_s = 0.0
    number = 0
    while True:
        yield at_s
        number += 1
        at_s = number / rate if kind == "constant" else at_s + source.expovariate(rate)
