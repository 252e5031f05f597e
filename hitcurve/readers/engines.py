"""Telling the engines of one page apart, and finding each one's series.

Which labels make an engine is not written anywhere: routers, Ray and collectors add their own. So every label
counts, except those that split one engine's series (``source``, ``le``, ``pid``, ...).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hitcurve.readers.exposition import Series

__all__ = ["EngineLabels", "MetricTable", "engine_ids", "engine_labels", "is_count", "is_plausible"]

EngineLabels = Mapping[str, str]
_Key = frozenset[tuple[str, str]]

_PREFERRED = ("engine", "dp_rank", "pd_backend", "backend", "model_name")


_LARGEST: Final = 2.0**63


def is_plausible(value: float) -> bool:
    """Whether it is finite and within what 64 bits count: a page may be damaged, and sums of squares overflow."""
    return -_LARGEST <= value <= _LARGEST


def is_count(value: float) -> bool:
    """Whether a counter can have the value."""
    return 0 <= value <= _LARGEST


def engine_labels(series: Series, split_by: frozenset[str]) -> EngineLabels:
    """The labels of a series that say which engine it belongs to; an empty label is the same as none."""
    return {label: value for label, value in series.labels.items() if value and label not in split_by}


def engine_ids(engines: Sequence[EngineLabels]) -> tuple[str, ...]:
    """One short name per engine, unique on the page: the values of the fewest labels that tell them apart.

    An engine alone on its page is called by its ``engine`` or ``dp_rank`` label, else ``0``. A label that an
    engine lacks shows as ``-``.
    """
    if len(engines) == 1:
        return (engines[0].get("engine") or engines[0].get("dp_rank") or "0",)
    chosen: list[str] = []
    ids: list[str] = [""] * len(engines)
    for label in _varying_labels(engines):
        chosen.append(label)
        ids = ["/".join(engine.get(name) or "-" for name in chosen) for engine in engines]
        if len(set(ids)) == len(ids):
            break
    return tuple(_told_apart(ids))


def _told_apart(ids: Sequence[str]) -> list[str]:
    """Values may hold the very characters that join them; a number tells apart what then looks alike."""
    seen: set[str] = set()
    unique = []
    for name in ids:
        number, free = 1, name
        while free in seen:
            number += 1
            free = f"{name}#{number}"
        seen.add(free)
        unique.append(free)
    return unique


def _varying_labels(engines: Sequence[EngineLabels]) -> list[str]:
    names = {name for engine in engines for name in engine}
    varying = {name for name in names if len({engine.get(name) for engine in engines}) > 1}
    return [name for name in _PREFERRED if name in varying] + sorted(varying - set(_PREFERRED))


class MetricTable:
    """Series of a page by metric, in the engine's own short names, each in its best spelling only."""

    def __init__(self, metrics: Mapping[str, tuple[Series, ...]], split_by: frozenset[str]) -> None:
        self._metrics = metrics
        self._split_by = split_by
        self._by_engine: dict[str, dict[_Key, list[Series]]] = {
            metric: self._grouped(series) for metric, series in metrics.items()
        }

    def engines(self, metrics: Iterable[str]) -> list[EngineLabels]:
        """The engines that print any of these metrics, in page order."""
        found: dict[_Key, EngineLabels] = {}
        for metric in metrics:
            for series in self._metrics.get(metric, ()):
                labels = engine_labels(series, self._split_by)
                found.setdefault(frozenset(labels.items()), labels)
        return list(found.values())

    def series(self, metric: str, engine: EngineLabels) -> list[Series]:
        """Series of one engine: those with exactly its labels, else those whose common labels agree."""
        groups = self._by_engine.get(metric)
        if not groups:
            return []
        exact = groups.get(frozenset(engine.items()))
        if exact is not None:
            return exact
        return [series for group in groups.values() for series in group if _agree(series.labels, engine)]

    def counter(self, metric: str, engine: EngineLabels) -> float | None:
        """Sum of a counter's series, ``None`` where it is absent or no count."""
        values = [series.value for series in self.series(metric, engine)]
        if not values or not all(map(is_count, values)):
            return None
        return sum(values)

    def gauge(self, metric: str, engine: EngineLabels) -> float | None:
        """A gauge, ``None`` where it is absent, not plausible, or printed by several processes at once."""
        found = self.series(metric, engine)
        if len(found) != 1 or not is_plausible(found[0].value):
            return None
        return found[0].value

    def _grouped(self, series: tuple[Series, ...]) -> dict[_Key, list[Series]]:
        groups: dict[_Key, list[Series]] = {}
        for one in series:
            groups.setdefault(frozenset(engine_labels(one, self._split_by).items()), []).append(one)
        return groups


def _agree(labels: Mapping[str, str], engine: EngineLabels) -> bool:
    return all((labels.get(name) or value) == value for name, value in engine.items())
