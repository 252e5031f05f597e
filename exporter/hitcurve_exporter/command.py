"""``hitcurve exporter``: the service on the command line."""

import asyncio
import dataclasses
import json
import logging
import signal
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from hitcurve.errors import UsageError
from hitcurve_exporter.clock import SystemClock
from hitcurve_exporter.configuration.discovery_settings import shard_from_option
from hitcurve_exporter.configuration.durations import format_duration
from hitcurve_exporter.configuration.load import (
    configuration_from_file,
    configuration_from_options,
    listen_address_from_option,
)
from hitcurve_exporter.configuration.records import ExporterConfig
from hitcurve_exporter.configuration.source_settings import source_from_option
from hitcurve_exporter.configuration.web_file import web_config_from_file
from hitcurve_exporter.scraping.core_monitor import core_monitor
from hitcurve_exporter.service import serve

__all__ = ["app"]

EPILOG: Final = (
    "Example: hitcurve exporter --target http://127.0.0.1:8000 --interval 5s   "
    "then open http://127.0.0.1:9477/ and let Prometheus scrape http://127.0.0.1:9477/metrics."
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(epilog=EPILOG)
def exporter(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML file; exporter/hitcurve.example.yaml shows every key."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Address of an engine, instead of a file; may be repeated."),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time between two scrapes of an engine, with --target. [default: 15s]"),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Where to serve; port 0 takes a free one. [default: 127.0.0.1:9477]"
        ),
    ] = None,
    web_config: Annotated[
        Path | None,
        typer.Option(
            "--web.config.file", metavar="FILE", help="TLS and passwords, in Prometheus' web configuration format."
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="INDEX/COUNT", help="Scrape this part of all targets, as one of COUNT exporters."),
    ] = None,
    source: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="prometheus URL",
            help="Read the counters from a query API (Prometheus, Thanos, Mimir) instead.",
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Validate the configuration, say so and stop.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --check: print the effective configuration as JSON.")
    ] = False,
) -> None:
    """Scrape engines and expose hit rates and curve states as hitcurve_* metrics."""
    if config is not None and (target or interval or source):
        raise UsageError("--config excludes --target, --source and --interval; put them into the file.")
    if as_json and not check:
        raise UsageError("--json belongs to --check; the exporter itself answers GET /api/v1/engines in JSON.")
    if target and source:
        raise UsageError("--source finds the engines itself; leave out --target, or --source.")
    queried = None if source is None else source_from_option(*source)
    if config is None and not target and queried is None:
        raise UsageError("nothing to scrape; give --config FILE or --target http://HOST:PORT.")

    def read() -> ExporterConfig:
        read_now = (
            configuration_from_file(config)
            if config
            else configuration_from_options(target or [], interval, queried)
        )
        if listen is not None:
            read_now = dataclasses.replace(read_now, listen=listen_address_from_option(listen))
        if shard is not None:
            read_now = dataclasses.replace(read_now, shard=shard_from_option(shard))
        if web_config is not None:
            read_now = dataclasses.replace(read_now, web=web_config_from_file(web_config))
        return read_now

    effective = read()
    if check:
        _print_checked(effective, as_json)
        return
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    ended_by = asyncio.run(
        serve(
            effective,
            read if config or web_config else None,
            core_monitor,
            SystemClock(),
            on_listening=_print_address,
        )
    )
    if ended_by is signal.SIGINT:
        raise KeyboardInterrupt


def _print_address(url: str) -> None:
    print(f"listening on {url}", flush=True)


def _print_checked(config: ExporterConfig, as_json: bool) -> None:
    if as_json:
        values = dataclasses.asdict(config)
        values["web"]["users"] = [user.name for user in config.web.users]
        print(json.dumps(values, indent=2))
        return
    windows = ", ".join(map(format_duration, config.windows_s))
    print(
        f"The configuration is good: {_what_is_scraped(config)} every {format_duration(config.interval_s)}, "
        f"windows {windows}, listening on {config.listen.host}:{config.listen.port}."
    )


def _what_is_scraped(config: ExporterConfig) -> str:
    if config.source is not None:
        return f"all engines that {config.source.url} knows"
    targets = f"{len(config.targets)} target{'' if len(config.targets) == 1 else 's'}"
    return f"{targets} and what discovery finds" if config.file_sd or config.http_sd else targets
