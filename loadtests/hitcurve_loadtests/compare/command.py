"""``hitcurve load compare``: two loads of the same traffic, with the intervals of their difference."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hitcurve.errors import BadFinding, UsageError
from hitcurve.rate_text import percent, points
from hitcurve_loadtests.compare.difference import difference
from hitcurve_loadtests.compare.pairs import read_load

__all__ = ["app"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    epilog="Example: hitcurve load unique --host URL --rate 5 --seed 1 --out runs/before; restart the "
    "engine, since one seed sends the same prompts and they would be cached; the same again to runs/after; then: "
    "hitcurve load compare runs/before runs/after --fail-above 1.05"
)
def compare(
    a: Annotated[Path, typer.Argument(help="Folder of a load, or its load-NAME.json.")],
    b: Annotated[Path, typer.Argument(help="The one to compare with it.")],
    fail_above: Annotated[
        float | None, typer.Option(help="Exit 1 where TTFT of B is surely above this many times that of A.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Pair the requests of two loads that sent the same, and tell what differs.

    Intervals are of 95 %, by resampling blocks of consecutive pairs. A ratio whose interval holds 1, or a
    difference whose interval holds 0, is not shown to be there.
    """
    if fail_above is not None and not fail_above > 0:
        raise UsageError(f"--fail-above is {fail_above:g}; it must be above zero.")
    answer = difference(read_load(a), read_load(b))
    if as_json:
        print(json.dumps(answer))
    else:
        _print(answer)
    low = answer["ttft_s"]["ratio"]["low"]
    if fail_above is not None and low is not None and low > fail_above:
        raise BadFinding(
            f"TTFT of {b} is at least {low:.3f} times that of {a}; at most {fail_above:g} is allowed."
        )


def _print(answer: Mapping[str, Any]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{answer['pairs']} pairs, {answer['left_out']} requests without a pair", markup=False)
    table = Table("", "A", "B", "B against A", "95 % interval")
    rate = answer["hit_rate"]
    table.add_row(
        "hit rate",
        _percent(rate["a"]),
        _percent(rate["b"]),
        _points(rate["difference"]["value"]),
        _span(rate["difference"], _points),
    )
    titles = {"ttft_s": "TTFT, mean", "tpot_s": "time per token", "request_duration_s": "whole request"}
    for name, title in titles.items():
        times = answer[name]
        ratio = times["ratio"]
        table.add_row(
            title, _ms(times["a_mean"]), _ms(times["b_mean"]), _times(ratio["value"]), _span(ratio, _times)
        )
    console.print(table)


def _span(interval: Mapping[str, Any], shown: Any) -> str:
    return "–" if interval["low"] is None else f"{shown(interval['low'])} to {shown(interval['high'])}"


def _percent(rate: float | None) -> str:
    return percent(rate, 1, unit=" %", none="unknown")


def _points(value: float | None) -> str:
    return points(value, none="–")


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{1000 * value:.1f} ms"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f} x"
