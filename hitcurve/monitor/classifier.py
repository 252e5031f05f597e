"""What a monitor needs of a curve classifier."""

from typing import Protocol

from hitcurve.curve import Episode
from hitcurve.reading import CurveState, Cut, Interval
from hitcurve.sample import EngineSample

__all__ = ["Classifier"]


class Classifier(Protocol):
    """Names the state of one engine's curve, scrape after scrape."""

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Incidents so far."""
        ...

    def observe(
        self, interval: Interval | None, sample: EngineSample | None, at_s: float, cuts: tuple[Cut, ...]
    ) -> CurveState:
        """Take what a scrape at ``at_s`` brought: neither interval nor sample where it failed."""
        ...
