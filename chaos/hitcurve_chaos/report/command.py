"""``hitcurve report``: rebuild the HTML report of a run."""

from pathlib import Path
from typing import Annotated

import typer

from hitcurve_chaos.report.page import write_report

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: hitcurve report runs/2026-11-30-120000-sim")
def report(
    folder: Annotated[
        Path, typer.Argument(help="A run folder, written by 'hitcurve demo' or 'hitcurve chaos run'.")
    ],
) -> None:
    """Rebuild the HTML report of a run from its records and print its path."""
    print(write_report(folder))
