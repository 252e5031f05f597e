"""The result of a simulation for people."""

from collections.abc import Iterator, Mapping
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
    for note in _notes(result.details):
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    _print_findings(console, "rejected", [(finding.line, finding.reason) for finding in result.rejected])
    _print_findings(console, "warning", [(warning["line"], warning["reason"]) for warning in about["warnings"]])


def _summary(result: SimulationResult, about: Mapping[str, Any]) -> Table:
    rules = about["rules"] if about["version"] is None else f"{about['rules']} {about['version']}"
    table = Table(title=f"{about['source']}: {rules}, {_pool(about)} of {about['block_size']} tokens")
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


def _pool(about: Mapping[str, Any]) -> str:
    if about["rules"] == "explicit":
        return "no pool, blocks"
    if about["pool_blocks"] is None:
        return "no limit, blocks"
    return f"{about['pool_blocks']:,} blocks"


def _notes(details: Mapping[str, Any]) -> Iterator[str]:
    """What only some rules can tell, in sentences."""
    if "query_blocks" in details:
        rate = percent(details["block_hit_rate"], 4)
        yield f"Of {details['query_blocks']:,} blocks {details['hit_blocks']:,} were hit ({rate})."
    if usage := details.get("usage"):
        names = {"read": "cache_read_tokens", "written for 5m": "cache_write_5m_tokens"}
        names |= {"written for 1h": "cache_write_1h_tokens", "plain": "plain_tokens"}
        yield "Billed tokens: " + ", ".join(f"{name} {usage[key]:,}" for name, key in names.items()) + "."
        if usage["cost_in_plain_tokens"] is not None:
            cost, plain = usage["cost_in_plain_tokens"], usage["cost_without_cache"]
            yield f"Cost: {cost:,.0f} plain tokens, {percent(cost / plain, 1)} of {plain:,} without a cache."
    for group in details.get("shared_namespaces", ()):
        names_of_group = "; ".join(_namespace(one) for one in group)
        yield f"Finding: one namespace for requests that should be kept apart: {names_of_group} (docs/engines.md)."
    if unsalted := details.get("requests_whose_salt_is_ignored"):
        yield f"Requests whose salt is ignored, since V0 knows none: {unsalted:,}."
    if False in (details.get("compared_with_the_engine"), details.get("compared_with_the_service")):
        yield "These rules follow source or description and were never compared with the real thing."


def _namespace(parts: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} '{value}'" for name, value in parts.items() if value is not None)


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
