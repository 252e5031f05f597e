"""``hitcurve watch``: the command."""

import json
import math
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Console

from hitcurve.errors import BadFinding, EnvironmentFailed, UsageError
from hitcurve.unreadable import cure_of
from hitcurve.watch.replica import Replica, Round, as_document, unhealthy
from hitcurve.watch.sources import Watched
from hitcurve.watch.table import as_table

__all__ = ["app", "print_once"]

_EPILOG: Final = (
    "Examples: hitcurve watch http://127.0.0.1:8000 http://127.0.0.1:8001 · "
    "hitcurve watch http://127.0.0.1:9477 --once --json"
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.command(name="watch", epilog=_EPILOG)
def watch_command(
    urls: Annotated[
        list[str],
        typer.Argument(metavar="URL", help="Addresses of engines, of exporters, or both."),
    ],
    interval: Annotated[float, typer.Option(metavar="SECONDS", help="Time from one reading to the next.")] = 5.0,
    window: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Window of the rate under 'now', for engines read directly."),
    ] = 60.0,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long an address may take.")] = 3.0,
    once: Annotated[bool, typer.Option("--once", help="Read once, print, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON per reading.")] = False,
) -> None:
    """Live hit-rate curves of replicas, read from engines directly or from an exporter.

    Keys: s sorts by the next column, / filters, p pauses, Enter shows one replica, q ends.

    With --once the exit code is 1 where a replica is unhealthy or its page does not tell, and 3 where one does not
    answer. One reading of an engine has no rate over time: then the cumulative hit rate is what there is; an
    exporter knows more.
    """
    for name, value in (("--interval", interval), ("--window", window), ("--timeout", timeout)):
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"{name} is {value:g}; give a number of seconds above 0.")
    watched = Watched(urls, windows_s=(window,), timeout_s=timeout)
    if once:
        print_once(watched.next(), as_json)
    elif as_json:
        _stream(watched, interval)
    else:
        _view(watched, interval)


def print_once(round_: Round, as_json: bool) -> None:
    """Print a round; EnvironmentFailed where one is down or none exists, BadFinding where one is unhealthy."""
    if as_json:
        print(json.dumps(as_document(round_), allow_nan=False))
    else:
        console = Console()
        console.print(as_table(round_, console.width))
    if not round_.replicas:
        raise EnvironmentFailed("no replica is known there yet; name engines, or wait for the exporter's targets.")
    down = [one for one in round_.replicas if not one.reading.up]
    if down:
        failure = (down[0].reading.failure or "no answer").rstrip(".")
        who = down[0].name if len(down) == 1 else f"{len(down)} replicas cannot be read: {down[0].name}"
        verb = "cannot be read" if len(down) == 1 else "for one"
        raise EnvironmentFailed(f"{who} {verb}: {failure}; {cure_of(failure)}.")
    ill = [one for one in round_.replicas if unhealthy(one.reading)]
    if ill:
        word = "unhealthy" if all(one.reading.state for one in ill) else "unhealthy or unknown"
        raise BadFinding(f"{_names(ill)}: {word}; 'hitcurve watch' without --once shows more.")


def _names(replicas: Sequence[Replica]) -> str:
    return ", ".join(one.name for one in replicas)


def _stream(watched: Watched, interval_s: float) -> None:
    due = time.monotonic()
    while True:
        print(json.dumps(as_document(watched.next()), allow_nan=False), flush=True)
        due = max(due + interval_s, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0.0))


def _view(watched: Watched, interval_s: float) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the live view needs a terminal; use --once or --json where there is none.")
    from hitcurve.watch.view import WatchApp

    WatchApp(watched, interval_s).run()
