"""The reconciliation for people."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hitcurve.printable import printable
from hitcurve.rate_text import percent

__all__ = ["GAP_TITLES", "print_answer", "traffic_name"]

COLOURS = {"ok": "green", "bad": "red", "no_data": "yellow", "invalid": "yellow"}
GAP_TITLES = {
    "cold_start": "cold start",
    "rounding_and_last_token": "rounding, last token",
    "isolation": "isolation",
    "eviction": "eviction",
    "concurrency": "concurrency",
    "unknown": "unknown",
}
MOST_ROWS = 30


def print_answer(answer: dict[str, Any]) -> None:
    """Print verdict, reasons, the row of each engine, adapter and tenant, and notes."""
    console = Console(highlight=False)
    console.print(_rates(answer))
    explained = [row for row in answer["rows"][:MOST_ROWS] if row["gap_points"]["cold_start"] is not None]
    if explained:
        console.print("where the rest goes, in points (measurement and gaps make 100):")
    for row in explained:
        console.print(f"  {_gaps(row)}", markup=False)
    for check in answer["engines"]:
        if check["rules"] is not None:
            pool = "unlimited" if check["pool_blocks"] is None else f"{check['pool_blocks']:,}"
            version = f" {check['version']}" if check["version"] else ""
            console.print(
                f"engine {check['engine']}: rules {check['rules']}{version}, {pool} blocks of "
                f"{check['block_size']} tokens; it looked up {_count(check['counted_query_tokens'])} tokens, "
                f"the log holds {_count(check['log_query_tokens'])}",
                markup=False,
            )
    for note in answer["notes"]:
        console.print(f"note: {note}", markup=False)
    colour = COLOURS[answer["verdict"]]
    console.print(f"verdict: [bold {colour}]{answer['verdict']}[/]")
    for reason in answer["reasons"]:
        console.print(f"  {reason}", markup=False)


def _rates(answer: dict[str, Any]) -> Table:
    table = Table(title=f"{escape(answer['log'])}: {answer['requests']:,} requests")
    table.add_column("traffic")
    for title in ("requests", "ceiling", "prediction", "measurement"):
        table.add_column(title, justify="right")
    for row in answer["rows"][:MOST_ROWS]:
        rates = (percent(row[name]) for name in ("ceiling", "prediction", "measurement"))
        table.add_row(escape(printable(traffic_name(row))), f"{row['requests']:,}", *rates)
    if len(answer["rows"]) > MOST_ROWS:
        table.caption = f"and {len(answer['rows']) - MOST_ROWS:,} more rows (--json has all of them)"
    return table


def _gaps(row: dict[str, Any]) -> str:
    points = row["gap_points"]
    said = ", ".join(
        f"{title} {points[name]:.2f}" for name, title in GAP_TITLES.items() if points[name] is not None
    )
    return f"{traffic_name(row)}: {said}"


def traffic_name(row: dict[str, Any]) -> str:
    """Whose traffic a row is."""
    kinds = (kind for kind in ("engine", "adapter", "tenant") if row[kind] is not None)
    return ", ".join(f"{kind} {row[kind]}" for kind in kinds)


def _count(value: float | None) -> str:
    return "an unknown number of" if value is None else f"{value:,.0f}"
