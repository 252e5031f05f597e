"""The core's monitor behind the exporter's port."""

from collections.abc import Mapping

from hitcurve.curve import CurveClassifier, Episode
from hitcurve.monitor import TargetMonitor
from hitcurve.reading import CutKind, Reading
from hitcurve.scrape import Scrape
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.scraping.fetched import Fetched

__all__ = ["core_monitor"]


def core_monitor(target: TargetConfig, config: ExporterConfig) -> "_CoreMonitor":
    """The monitor of one target; its readings carry the target's name."""
    return _CoreMonitor(
        TargetMonitor(
            target.name,
            windows_s=config.windows_s,
            max_requests=config.request_window,
            classifier_factory=lambda: CurveClassifier(config.curve),
        )
    )


class _CoreMonitor:
    def __init__(self, monitor: TargetMonitor) -> None:
        self._monitor = monitor

    @property
    def episodes(self) -> Mapping[str, tuple[Episode, ...]]:
        return self._monitor.episodes

    def observe(self, fetched: Fetched) -> tuple[Reading, ...]:
        return self._monitor.observe(
            Scrape(
                at_s=fetched.at_s,
                monotonic_s=fetched.monotonic_s,
                target=self._monitor.target,
                status=fetched.status,
                body=fetched.body,
                content_type=fetched.content_type,
                error=None if fetched.failure is None else fetched.detail,
            )
        )

    def mark(self, kind: CutKind, at_s: float) -> None:
        self._monitor.mark(kind, at_s)
