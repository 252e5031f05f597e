"""What the exporter is told: frozen records with the defaults in one place."""

from dataclasses import dataclass, field
from typing import Final

from hitcurve.curve import CurveConfig
from hitcurve_exporter.configuration.access_records import EngineAccess
from hitcurve_exporter.configuration.discovery_records import FileDiscovery, HttpDiscovery, Shard
from hitcurve_exporter.configuration.kv_events_records import KvEventsConfig
from hitcurve_exporter.configuration.source_records import PrometheusSource
from hitcurve_exporter.configuration.web_records import WebConfig

__all__ = [
    "DEFAULT_INTERVAL_S",
    "DEFAULT_LISTEN",
    "DEFAULT_TIMEOUT_S",
    "DEFAULT_WINDOWS_S",
    "ExporterConfig",
    "ListenAddress",
    "TargetConfig",
    "default_timeout",
    "default_windows",
]


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen; port 0 lets the system choose."""

    host: str
    port: int


DEFAULT_LISTEN: Final = ListenAddress("127.0.0.1", 9477)
DEFAULT_INTERVAL_S: Final = 15.0
DEFAULT_TIMEOUT_S: Final = 5.0
DEFAULT_WINDOWS_S: Final = (30.0, 60.0, 300.0, 3600.0)


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """One engine's address. ``name`` is the value of the label ``target``, the URL where none is given."""

    url: str
    """As configured, without a trailing slash; it is scraped at ``metrics_url``."""
    metrics_url: str
    name: str
    labels: tuple[tuple[str, str], ...] = ()
    """Labels added to every sample of this target."""
    kv_events: KvEventsConfig | None = None
    access: EngineAccess | None = None


@dataclass(frozen=True, slots=True)
class ExporterConfig:
    """The whole configuration; times in seconds."""

    targets: tuple[TargetConfig, ...]
    listen: ListenAddress = DEFAULT_LISTEN
    interval_s: float = DEFAULT_INTERVAL_S
    timeout_s: float = DEFAULT_TIMEOUT_S
    max_body_bytes: int = 32 * 1024 * 1024
    max_targets: int = 2_000
    max_engines_per_target: int = 256
    windows_s: tuple[float, ...] = DEFAULT_WINDOWS_S
    request_window: int = 1_000
    curve: CurveConfig = field(default_factory=CurveConfig)
    access: EngineAccess | None = None
    """For targets that name no access of their own, discovered ones too."""
    allow_marks: bool = False
    allowed_hosts: tuple[str, ...] = ()
    file_sd: tuple[FileDiscovery, ...] = ()
    http_sd: tuple[HttpDiscovery, ...] = ()
    shard: Shard = field(default_factory=Shard)
    source: PrometheusSource | None = None
    """Where counters are read from instead of the engines."""
    web: WebConfig = field(default_factory=WebConfig)


def default_timeout(interval_s: float) -> float:
    """A scrape may take as long as the interval, and not longer than five seconds."""
    return min(DEFAULT_TIMEOUT_S, interval_s)


def default_windows(interval_s: float) -> tuple[float, ...]:
    """The usual windows that hold at least one interval; four intervals where none does."""
    return tuple(window for window in DEFAULT_WINDOWS_S if window >= interval_s) or (4 * interval_s,)
