"""What the exporter needs of the core: something that turns one target's pages into readings."""

from collections.abc import Callable, Mapping
from typing import Protocol

from hitcurve.curve import Episode
from hitcurve.reading import CutKind, Reading
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.scraping.fetched import Fetched

__all__ = ["Monitor", "MonitorFactory"]


class Monitor(Protocol):
    """Follows the engines of one target from page to page."""

    @property
    def episodes(self) -> Mapping[str, tuple[Episode, ...]]:
        """Incidents of each engine so far."""
        ...

    def observe(self, fetched: Fetched) -> tuple[Reading, ...]:
        """The readings after this page, one per engine; after a failed scrape too, if engines are known."""
        ...

    def mark(self, kind: CutKind, at_s: float) -> None:
        """Note a cut known from outside, of every engine of the target."""
        ...


MonitorFactory = Callable[[TargetConfig, ExporterConfig], Monitor]
