"""What the service needs of whatever watches the engines."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from hitcurve.reading import CutKind, Reading
from hitcurve_exporter.configuration.records import ExporterConfig
from hitcurve_exporter.scraping.watched_target import InternalErrors, WatchedTarget

__all__ = ["EngineSource"]


class EngineSource(Protocol):
    """Keeps the newest readings of every engine."""

    internal_errors: InternalErrors

    @property
    def targets(self) -> Sequence[WatchedTarget]:
        """The targets known now."""
        ...

    @property
    def readings(self) -> Iterable[Reading]:
        """The newest reading of every engine."""
        ...

    @property
    def ready(self) -> bool:
        """Whether everything was looked at once."""
        ...

    async def apply(self, config: ExporterConfig) -> None:
        """Begin, or go on with another configuration."""
        ...

    async def mark(self, kind: CutKind, at_s: float, target: str | None, engine: str | None) -> int:
        """Note a cut known from outside; returns how many targets it was noted for."""
        ...

    async def close(self) -> None:
        """End every task."""
        ...
