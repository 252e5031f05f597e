"""The samples about the fleet and about the exporter itself."""

import platform
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from hitcurve import __version__
from hitcurve_exporter.configuration.durations import format_duration
from hitcurve_exporter.fleet import Fleet, ModelFleet
from hitcurve_exporter.page.document import OPENMETRICS, PageFormat
from hitcurve_exporter.page.lines import Lines, label_text

__all__ = ["ProcessFamilies", "fleet_lines", "self_lines"]

_BUILD_LABELS: Final = label_text([("version", __version__), ("python", platform.python_version())])
_END_MARK: Final = "# EOF\n"


def fleet_lines(fleet: Fleet) -> Lines:
    """Hit rates, engines and states of the fleet."""
    lines = Lines()
    for window in fleet.windows:
        own = label_text([("window", format_duration(window.window_s))])
        lines.add("hitcurve_fleet_hit_rate_ratio", "", window.hit_rate, own)
    lines.add("hitcurve_fleet_engines", "", fleet.engines)
    for state, engines in fleet.states.items():
        lines.add("hitcurve_fleet_engine_states", "", engines, label_text([("state", state)]))
    for model, part in fleet.models.items():
        _model_lines(lines, model, part)
    return lines


def _model_lines(lines: Lines, model: str, part: ModelFleet) -> None:
    labels = label_text([("model_name", model)])
    for window in part.windows:
        own = label_text([("window", format_duration(window.window_s))])
        lines.add("hitcurve_model_hit_rate_ratio", labels, window.hit_rate, own)
        lines.add("hitcurve_model_hit_rate_spread_ratio", labels, part.spreads.get(window.window_s), own)
    lines.add("hitcurve_model_engines", labels, part.engines)


def self_lines(
    targets: int,
    interval_s: float,
    internal_errors: int,
    reload_good: bool,
    last_good_reload_s: float,
    *,
    over_limit: int = 0,
    discovery_failures: int = 0,
) -> Lines:
    """What the exporter says about itself."""
    lines = Lines()
    lines.add("hitcurve_build_info", _BUILD_LABELS, 1)
    lines.add("hitcurve_exporter_targets", "", targets)
    lines.add("hitcurve_exporter_targets_over_limit", "", over_limit)
    lines.add("hitcurve_exporter_discovery_failures_total", "", discovery_failures)
    lines.add("hitcurve_exporter_interval_seconds", "", interval_s)
    lines.add("hitcurve_exporter_internal_errors_total", "", internal_errors)
    lines.add("hitcurve_exporter_config_last_reload_successful", "", int(reload_good))
    lines.add("hitcurve_exporter_config_last_reload_success_timestamp_seconds", "", last_good_reload_s)
    return lines


class ProcessFamilies:
    """CPU, memory and file descriptors of this process, as prometheus_client words them."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)

    def text(self, form: PageFormat) -> str:
        """Whole families without an end mark; empty where the platform tells nothing."""
        generate = generate_openmetrics if form is OPENMETRICS else generate_latest
        return generate(self._registry).decode().removesuffix(_END_MARK)
