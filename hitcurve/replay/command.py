"""``hitcurve replay``: the post-mortem of recorded /metrics pages."""

import json
import math
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hitcurve.errors import UsageError
from hitcurve.progress import progress_over
from hitcurve.replay.document import as_document
from hitcurve.replay.manifest import backward_steps, load_manifest, scrapes
from hitcurve.replay.run import Replay, replay
from hitcurve.replay.table import print_replay

__all__ = ["app"]

_EPILOG = "Example: hitcurve replay recordings/monday --window 60 --window 300 --json"
_DEFAULT_WINDOWS_S = (60.0, 300.0)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.command(name="replay", epilog=_EPILOG)
def replay_command(
    recording: Annotated[
        Path, typer.Argument(metavar="DIR|MANIFEST", help="A folder with scrapes.json, or such a file.")
    ],
    window: Annotated[
        list[float] | None,
        typer.Option(metavar="SECONDS", help="Length of a window; repeat it for several (default 60 and 300)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Recorded /metrics pages to intervals, windows, states, cuts and incidents.

    scrapes.json is a list in order of time of {"at_s", "target", "status", "file", "content_type"}; "file" is
    left out where a scrape brought no body.
    """
    windows_s = tuple(dict.fromkeys(window or _DEFAULT_WINDOWS_S))
    for length in windows_s:
        if not (math.isfinite(length) and length > 0):
            raise UsageError(f"--window is {length:g}; give a number of seconds above 0.")
    entries = load_manifest(recording)
    with progress_over(f"replaying {recording}", len(entries)) as on_scrape:
        result = replay(lambda: scrapes(entries, on_scrape), windows_s)
    if as_json:
        print(json.dumps(as_document(result), indent=1, allow_nan=False))
    else:
        print_replay(result, Console())
    for remark in backward_steps(entries):
        print(f"hitcurve: {remark}", file=sys.stderr)
    if all(not target.samples for target in result.targets.values()):
        raise UsageError(_nothing_readable(recording, result))


def _nothing_readable(recording: Path, result: Replay) -> str:
    reasons = {failed.reason: None for target in result.targets.values() for failed in target.history.failed}
    return (
        f"no page of {recording} could be read: {next(iter(reasons), 'it holds no body').rstrip('.')}; "
        "record the engines' own /metrics pages as text."
    )
