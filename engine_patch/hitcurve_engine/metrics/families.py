"""Snapshots of several engine processes as one set of metric families, in the order of the catalogue."""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any

from hitcurve.engine_patch_catalogue import ENGINE_PATCH_CATALOGUE, ENGINE_PATCH_LABELS, EnginePatchMetric
from hitcurve_engine.metrics.tally import Labels, Snapshot

__all__ = ["SnapshotCollector", "merged"]

_JOIN: dict[str, Callable[[float, float], float]] = {"sum": lambda one, two: one + two, "min": min, "max": max}


class SnapshotCollector:
    """A collector for ``prometheus_client``. It never raises: one that does makes the whole page a 500."""

    def __init__(self, snapshots: Callable[[], Iterable[Snapshot]]) -> None:
        self._snapshots = snapshots

    def describe(self) -> list[Any]:
        """Nothing is promised: registering must not read anything."""
        return []

    def collect(self) -> Iterator[Any]:
        """Families that have a sample."""
        try:
            families = _families(list(self._snapshots()))
        except Exception:
            return
        yield from families


def merged(family: EnginePatchMetric, snapshots: Iterable[Snapshot]) -> dict[Labels, Any]:
    """Label values to value. What several processes say of the same labels is joined as the catalogue says."""
    join = _JOIN[family.merge]
    values: dict[Labels, Any] = {}
    for snapshot in snapshots:
        for labels, value in snapshot.get(family.name, ()):
            key = tuple(labels)
            if key not in values:
                values[key] = value
            elif family.kind == "histogram":
                values[key] = [one + two for one, two in zip(values[key], value, strict=True)]
            else:
                values[key] = join(values[key], value)
    return values


def _families(snapshots: list[Snapshot]) -> list[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    made = []
    for metric in ENGINE_PATCH_CATALOGUE:
        values = merged(metric, snapshots)
        if not values:
            continue
        names = (*ENGINE_PATCH_LABELS, *metric.labels)
        family: Any
        if metric.kind == "histogram":
            family = HistogramMetricFamily(metric.name, metric.help, labels=names)
            bounds = [*(str(bound) for bound in metric.buckets), "+Inf"]
            for labels, value in values.items():
                counts = list(zip(bounds, accumulate(value[:-1]), strict=True))
                family.add_metric(labels, buckets=counts, sum_value=value[-1])
        else:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=names)
            for labels, value in values.items():
                family.add_metric(labels, value)
        made.append(family)
    return made
