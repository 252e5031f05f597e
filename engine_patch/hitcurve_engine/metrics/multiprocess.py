"""With several API servers: plain ``prometheus_client`` metrics in the engine, which vLLM's ``/metrics`` adds up.

vLLM sets ``PROMETHEUS_MULTIPROC_DIR`` for all its processes then (0.9.1 and later). Such metrics can only be
incremented, hence the differences between snapshots.
"""

from typing import Any

from hitcurve.engine_patch_catalogue import ENGINE_PATCH_CATALOGUE, ENGINE_PATCH_LABELS, EnginePatchMetric
from hitcurve_engine.metrics.tally import Labels, Snapshot

__all__ = ["MultiprocessPublisher"]


class MultiprocessPublisher:
    """Holds one metric object per family, in a registry of its own; the files are what is read."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        self._metrics = {family.name: _metric(family, registry) for family in ENGINE_PATCH_CATALOGUE}
        self._published: dict[tuple[str, Labels], Any] = {}

    def publish(self, snapshot: Snapshot) -> None:
        """Add what is new since the last time."""
        for family in ENGINE_PATCH_CATALOGUE:
            for labels, value in snapshot.get(family.name, ()):
                key = (family.name, tuple(labels))
                before = self._published.get(key)
                if value != before:
                    _raise(family, self._metrics[family.name].labels(*labels), before, value)
                    self._published[key] = value

    def close(self) -> None:
        """The files stay: vLLM removes them with their folder."""


def _metric(family: EnginePatchMetric, registry: Any) -> Any:
    from prometheus_client import Counter, Gauge, Histogram

    names = (*ENGINE_PATCH_LABELS, *family.labels)
    if family.kind == "counter":
        return Counter(family.name, family.help, names, registry=registry)
    if family.kind == "histogram":
        return Histogram(family.name, family.help, names, registry=registry, buckets=family.buckets)
    mode: Any = f"live{family.merge}"
    return Gauge(family.name, family.help, names, registry=registry, multiprocess_mode=mode)


def _raise(family: EnginePatchMetric, child: Any, before: Any, value: Any) -> None:
    if family.kind == "gauge":
        child.set(value)
    elif family.kind == "counter":
        child.inc(value - (before or 0))
    else:
        # A histogram has no public way to enter many values at once, and one at a time would cost the engine.
        steps = zip(child._buckets, value, before or [0] * len(value), strict=False)
        for bucket, now, then in steps:
            bucket.inc(now - then)
        child._sum.inc(value[-1] - (before[-1] if before else 0))
