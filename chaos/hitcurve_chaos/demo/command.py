"""``hitcurve demo``: the whole suite on this machine."""

import json
import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from hitcurve.errors import BadFinding
from hitcurve_chaos.console import table_console
from hitcurve_chaos.demo.run import DemoResult, run_demo
from hitcurve_chaos.demo.settings import SETTINGS
from hitcurve_chaos.interrupts import ended_like_interrupted

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    epilog="Examples: 'hitcurve demo' needs nothing; 'hitcurve demo --engine vllm' needs 'make vllm-env' once. "
    "Exit code 0: every scenario is ok and exporter and client agree."
)
def demo(
    engine: Annotated[
        Literal["sim", "vllm"], typer.Option(help="The simulated engine, or a real vLLM on this machine's CPU.")
    ] = "sim",
    out: Annotated[
        Path | None, typer.Option(help="Run folder to write; by default a new one below runs/.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of prompts, arrivals and scenarios.")] = 7,
    scenario: Annotated[
        list[str] | None, typer.Option(help="Run only this scenario (repeatable); by default all of the demo.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Engine, exporter, Locust load and chaos scenarios on this machine; verdicts and one HTML report.

    Takes about two minutes. Everything listens on 127.0.0.1 only and is ended when the command ends.
    """
    settings = SETTINGS[engine]
    folder = out or Path("runs", f"{time.strftime('%Y-%m-%d-%H%M%S')}-{engine}")
    with ended_like_interrupted():
        result = run_demo(engine, folder, seed, tuple(scenario or settings.scenarios), settings)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        _show(result)
    if not result.ok:
        bad = [verdict.scenario for verdict in result.verdicts if verdict.verdict != "ok"]
        raise BadFinding(
            f"not ok: {', '.join(bad)}; see the report."
            if bad
            else "exporter and client disagree by more than one block per request; see the report."
        )


def _show(result: DemoResult) -> None:
    console = table_console()
    table = Table(title="Verdicts", title_justify="left")
    for column in ("scenario", "verdict", "seen"):
        table.add_column(column, overflow="fold")
    colours = {"ok": "green", "bad": "red"}
    for verdict in result.verdicts:
        colour = colours.get(verdict.verdict, "yellow")
        table.add_row(verdict.scenario, f"[{colour}]{verdict.verdict}[/]", escape(verdict.seen))
    console.print(table)
    agreed = result.agreement
    if agreed is not None and agreed.exporter_hit_rate is not None and agreed.client_hit_rate is not None:
        console.print(
            f"hit rate of the run: exporter {agreed.exporter_hit_rate:.2%}, client {agreed.client_hit_rate:.2%}; "
            f"they differ by {agreed.blocks_per_request or 0:.3f} blocks per request"
        )
    print(f"report: {result.report}")
