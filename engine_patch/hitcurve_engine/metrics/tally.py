"""The numbers behind the metrics, by family and labels: plain, cheap to add to, easy to hand over."""

from bisect import bisect_left
from threading import Lock
from typing import Any, Final

from hitcurve.engine_patch_catalogue import ENGINE_PATCH_CATALOGUE

__all__ = ["FAMILIES", "Labels", "Snapshot", "Tally"]

Labels = tuple[str, ...]
Value = float | list[float]
Snapshot = dict[str, list[list[Any]]]
"""Family to ``[label values, value]``; a histogram's value is its bucket counts (not cumulative), then its sum."""

FAMILIES: Final = {family.name: family for family in ENGINE_PATCH_CATALOGUE}


class Tally:
    """Counters, gauges and histograms of one engine. ``base`` are the values of the labels that all samples carry.

    One thread writes, any thread may take a snapshot. Hold ``lock`` around writes that must be seen together.
    """

    def __init__(self, base: Labels) -> None:
        self.lock = Lock()
        self._base = base
        self._numbers: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, list[float]]] = {}

    def add(self, name: str, amount: float, *labels: str) -> None:
        """Count. An amount of 0 makes the series, so that its first increase is seen."""
        series = self._numbers.setdefault(name, {})
        series[labels] = series.get(labels, 0) + amount

    def set(self, name: str, value: float, *labels: str) -> None:
        """What a gauge, or a counter that is kept elsewhere, stands at."""
        self._numbers.setdefault(name, {})[labels] = value

    def observe(self, name: str, values: list[float], *labels: str) -> None:
        """Enter values into a histogram; none of them makes the series."""
        bounds = FAMILIES[name].buckets
        series = self._histograms.setdefault(name, {})
        counts = series.get(labels)
        if counts is None:
            counts = series[labels] = [0.0] * (len(bounds) + 2)
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        counts[-1] += sum(values)

    def snapshot(self) -> Snapshot:
        """All numbers as they are now, for whom it may be serialised."""
        base = self._base
        with self.lock:
            taken: Snapshot = {
                name: [[[*base, *labels], value] for labels, value in series.items()]
                for name, series in self._numbers.items()
            }
            for name, histograms in self._histograms.items():
                taken[name] = [[[*base, *labels], list(counts)] for labels, counts in histograms.items()]
        return taken
