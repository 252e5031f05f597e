"""The result of a simulation for people."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from hitcurve.rate_text import percent
from hitcurve_simulator.simulate.result import SimulationResult

__all__ = ["print_table"]

MOST_FINDINGS = 10


def print_table(result: SimulationResult, about: Mapping[str, Any], per_request: bool) -> None:
    """Print sums, miss reasons, rejected lines and warnings; ``about`` holds the effective settings."""
    console = Console()
    console.print(_summary(result, about))
    if per_request:
        console.print(_requests(result))
    _print_findings(console, "rejected", [(finding.line, finding.reason) for finding in result.rejected])
    _print_findings(console, "warning", [(warning["line"], warning["reason"]) for warning in about["warnings"]])


def _summary(result: SimulationResult, about: Mapping[str, Any]) -> Table:
    pool = "unlimited" if about["pool_blocks"] is None else f"{about['pool_blocks']:,} blocks"
    rules = about["rules"] if about["version"] is None else f"{about['rules']} {about['version']}"
    table = Table(title=f"{about['source']}: {rules}, {pool} of {about['block_size']} tokens")
    table.add_column("")
    table.add_column("tokens", justify="right")
    table.add_column("of the query tokens", justify="right")
    queries = result.query_tokens
    table.add_row("query tokens", f"{queries:,}", "")
    table.add_row("hit tokens", f"{result.hit_tokens:,}", _share(result.hit_tokens, queries), end_section=True)
    for reason, tokens in result.miss_tokens.items():
        table.add_row(f"missed: {reason}", f"{tokens:,}", _share(tokens, queries))
    table.caption = f"{len(result.served):,} requests, {result.evicted_blocks:,} blocks evicted"
    return table


def _requests(result: SimulationResult) -> Table:
    table = Table()
    for title in ("line", "query tokens", "hit tokens", "hit rate"):
        table.add_column(title, justify="right")
    for request in result.served:
        hits = request.hit_tokens
        table.add_row(
            str(request.row.line),
            f"{request.query_tokens:,}",
            "may not read the cache" if hits is None else f"{hits:,}",
            "" if hits is None else _share(hits, request.query_tokens),
        )
    return table


def _print_findings(console: Console, kind: str, findings: list[tuple[int, str]]) -> None:
    for line, reason in findings[:MOST_FINDINGS]:
        console.print(f"{kind}: line {line}: {reason}", markup=False, highlight=False)
    if len(findings) > MOST_FINDINGS:
        console.print(f"... and {len(findings) - MOST_FINDINGS:,} more (--json has all of them)")


def _share(part: int, whole: int) -> str:
    return percent(part / whole if whole else None, 4)
