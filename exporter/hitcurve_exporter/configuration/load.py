"""Reading and validating the exporter's configuration, from a file or from the command line."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.access_settings import ACCESS_KEYS, read_access
from hitcurve_exporter.configuration.curve_settings import read_curve_settings
from hitcurve_exporter.configuration.discovery_settings import (
    read_file_discovery,
    read_http_discovery,
    read_shard,
)
from hitcurve_exporter.configuration.durations import format_duration, parse_duration
from hitcurve_exporter.configuration.records import (
    DEFAULT_INTERVAL_S,
    DEFAULT_LISTEN,
    ExporterConfig,
    ListenAddress,
    TargetConfig,
    default_timeout,
    default_windows,
)
from hitcurve_exporter.configuration.source_records import PrometheusSource
from hitcurve_exporter.configuration.source_settings import read_source
from hitcurve_exporter.configuration.targets import a_listen_address, a_target, read_targets
from hitcurve_exporter.configuration.web_file import web_config_from_file
from hitcurve_exporter.configuration.web_records import WebConfig
from hitcurve_exporter.configuration.yaml_document import (
    Section,
    Unsuitable,
    a_flag,
    a_text,
    a_whole_number,
    read_document,
    some_duration,
    without_credentials,
)

__all__ = ["configuration_from_file", "configuration_from_options", "listen_address_from_option"]

KEYS: Final = (
    "listen",
    "interval",
    "timeout",
    "max_body_bytes",
    "max_targets",
    "max_engines_per_target",
    "windows",
    "request_window",
    "targets",
    "file_sd_configs",
    "http_sd_configs",
    "shard",
    "source",
    "curve",
    "allow_marks",
    "allowed_hosts",
    "web_config_file",
    *ACCESS_KEYS,
)
SHORTEST_INTERVAL_S: Final = 0.1
MOST_WINDOWS: Final = 12
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})")


def configuration_from_file(path: Path) -> ExporterConfig:
    """The validated configuration of a YAML file; UsageError names file, line, key and the cure."""
    document = read_document(path)
    document.allow_only(KEYS)
    interval_s = document.read("interval", an_interval, DEFAULT_INTERVAL_S)
    timeout_s = document.read("timeout", some_duration, default_timeout(interval_s))
    if timeout_s > interval_s:
        raise document.wrong_at(
            "timeout",
            f"'timeout' {format_duration(timeout_s)} is longer than the interval {format_duration(interval_s)}; "
            "shorten it or scrape less often.",
        )
    file_sd = read_file_discovery(document, path.parent)
    http_sd = read_http_discovery(document)
    source = read_source(document, path.parent)
    if source is not None and (file_sd or http_sd or "targets" in document):
        raise document.wrong_at(
            "source", "'source' finds the engines itself; leave out 'targets' and the '…_sd_configs', or 'source'."
        )
    most_targets = document.read("max_targets", a_whole_number(1), 2_000)
    access = read_access(document, path.parent)
    if source is not None and access is not None:
        named = next(key for key in ACCESS_KEYS if key in document)
        raise document.wrong_at(
            named,
            f"'{named}' is for engines, and 'source' asks none; use its 'headers' and 'authorization_file'.",
        )
    return ExporterConfig(
        targets=read_targets(
            document,
            most_targets,
            folder=path.parent,
            access=access,
            may_be_none=bool(file_sd or http_sd or source),
        ),
        access=access,
        source=source,
        file_sd=file_sd,
        http_sd=http_sd,
        shard=read_shard(document),
        listen=document.read("listen", a_listen_address, DEFAULT_LISTEN),
        interval_s=interval_s,
        timeout_s=timeout_s,
        max_body_bytes=document.read("max_body_bytes", a_whole_number(1_024), 32 * 1024 * 1024),
        max_targets=most_targets,
        max_engines_per_target=document.read("max_engines_per_target", a_whole_number(1), 256),
        windows_s=_windows(document, interval_s),
        request_window=document.read("request_window", a_whole_number(1), 1_000),
        curve=read_curve_settings(document),
        allow_marks=document.read("allow_marks", a_flag, False),
        allowed_hosts=document.read_list("allowed_hosts", a_host_name) or (),
        web=_web(document, path.parent),
    )


def configuration_from_options(
    urls: Sequence[str], interval: str | None, source: PrometheusSource | None = None
) -> ExporterConfig:
    """The configuration of ``--target`` or ``--source`` and ``--interval``; everything else is a default."""
    try:
        interval_s = DEFAULT_INTERVAL_S if interval is None else an_interval(_with_unit(interval))
    except Unsuitable as error:
        raise UsageError(f"--interval must be {error}; got '{interval}'.") from error
    targets: dict[str, TargetConfig] = {}
    for url in urls:
        try:
            target = a_target(url if "://" in url else f"http://{url}")
        except Unsuitable as error:
            raise UsageError(f"--target must be {error}; got '{without_credentials(url)}'.") from error
        if target.metrics_url in targets:
            raise UsageError(f"--target {target.name} is given twice; give every engine once.")
        targets[target.metrics_url] = target
    return ExporterConfig(
        targets=tuple(targets.values()),
        interval_s=interval_s,
        timeout_s=default_timeout(interval_s),
        windows_s=default_windows(interval_s),
        source=source,
    )


def listen_address_from_option(text: str) -> ListenAddress:
    """The address of ``--listen``."""
    try:
        return a_listen_address(text)
    except Unsuitable as error:
        raise UsageError(f"--listen must be {error}; got '{text}'.") from error


def an_interval(text: str) -> float:
    """Seconds; not so short that scraping would disturb the engine."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if seconds < SHORTEST_INTERVAL_S:
        raise Unsuitable(f"a duration such as 15s, at least {format_duration(SHORTEST_INTERVAL_S)}")
    return seconds


def a_host_name(text: str) -> str:
    """A name without port."""
    if not _HOST_NAME.fullmatch(text):
        raise Unsuitable("a host name such as exporter.example, without port")
    return text.lower().rstrip(".")


def _windows(document: Section, interval_s: float) -> tuple[float, ...]:
    windows = document.read_list("windows", some_duration)
    if windows is None:
        return default_windows(interval_s)
    if not 1 <= len(windows) <= MOST_WINDOWS:
        raise document.wrong_at(
            "windows", f"'windows' must name 1 to {MOST_WINDOWS} durations, not {len(windows)}."
        )
    if len(set(windows)) < len(windows):
        raise document.wrong_at("windows", "'windows' names a duration twice; keep it once.")
    for window in windows:
        if window < interval_s:
            raise document.wrong_at(
                "windows",
                f"the window {format_duration(window)} is shorter than the interval "
                f"{format_duration(interval_s)}, so no scrape would fall into it; make it longer.",
            )
    return tuple(sorted(windows))


def _web(document: Section, folder: Path) -> WebConfig:
    """A relative path starts from the folder of the configuration."""
    file = document.read("web_config_file", a_text, None)
    return WebConfig() if file is None else web_config_from_file(folder / file)


def _with_unit(interval: str) -> str:
    """A bare number on the command line means seconds."""
    return f"{interval}s" if interval.replace(".", "", 1).isdigit() else interval
