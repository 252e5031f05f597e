"""The answer for people."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hitcurve.printable import printable
from hitcurve.rate_text import percent, points

__all__ = ["print_answer"]

MOST_FINDINGS = 10
MOST_GROUPS = 20

Json = dict[str, Any]


def print_answer(answer: Json) -> None:
    """Print every section that the answer has, each with what its numbers mean."""
    console = Console(highlight=False)
    _print_ceiling(console, answer)
    console.print(_curve(answer))
    console.print(_shares(answer))
    if "model" in answer:
        model = answer["model"]
        said = [f"{model['kv_bytes_per_token']:,} bytes of KV cache a token: {model['formula']}", *model["notes"]]
        console.print("; ".join(said), markup=False)
    for name, show in (
        ("block_sizes", _block_sizes),
        ("isolation", _isolation),
        ("split", _split),
        ("routing", _routing),
    ):
        if name in answer:
            console.print(show(answer[name]))
    if "breaks" in answer:
        _print_breaks(console, answer["breaks"])
    _print_findings(console, answer)


def _print_ceiling(console: Console, answer: Json) -> None:
    ceiling, engine = answer["ceiling"], answer["ceiling"]["engine_like"]
    console.print(
        f"{answer['source']}: {answer['requests']:,} requests, {answer['query_tokens']:,} prompt tokens, "
        f"{answer['query_blocks']:,} blocks of {answer['block_size']}, {answer['distinct_blocks']:,} distinct",
        markup=False,
    )
    for rates in (ceiling, engine):
        token, block = percent(rates["token"], 4), percent(rates["block"], 4)
        said = f"ceiling {token} of tokens, {block} of blocks ({rates['definition']})"
        console.print(said, markup=False)


def _curve(answer: Json) -> Table:
    gib = "pool_gib" in answer["curve"][0]
    table = Table(title="Hit rate against pool size", caption=f"speed-up: {answer['speed_up']}")
    for title in ("pool, blocks", "tokens", *(["GiB"] if gib else []), "all blocks", "engine-like", "speed-up"):
        table.add_column(title, justify="right")
    for point in answer["curve"]:
        speed_up = point["speed_up"]
        table.add_row(
            f"{point['pool_blocks']:,}",
            f"{point['pool_tokens']:,}",
            *([f"{point['pool_gib']:,.1f}"] if gib else []),
            percent(point["hit_rate"], 4),
            percent(point["engine_like_hit_rate"], 4),
            "no value" if speed_up is None else f"{speed_up:.2f}x",
        )
    return table


def _shares(answer: Json) -> Table:
    names = ("hit", "compulsory", "capacity", "isolated", "tail")
    table = Table(title="Where the prompt tokens go, engine-like")
    for title in ("pool, blocks", *names):
        table.add_column(title, justify="right")
    for shares in answer["shares"]:
        whole = sum(shares[name] for name in names)
        table.add_row(_pool(shares["pool_blocks"]), *(_part(shares[name], whole) for name in names))
    return table


def _block_sizes(rows: list[Json]) -> Table:
    pools = [_pool(pool["pool_tokens"]) for pool in rows[0]["pools"]]
    table = _rates_table("Block size", ["tokens a block"], [f"{pool} tokens" for pool in pools])
    for row in rows:
        table.add_row(f"{row['block_size']:,}", *_rates(row["pools"]))
    return table


def _isolation(rows: list[Json]) -> Table:
    table = _rates_table("What keeping traffic apart costs", ["kept apart by"], _pools(rows[0]["pools"]))
    for row in rows:
        name = ", ".join(row["isolated_by"]) or "nothing"
        table.add_row(f"{name} (as it is)" if row["as_it_is"] else name, *_rates(row["pools"]))
    return table


def _split(split: Json) -> Table:
    groups = split["groups"]
    table = _rates_table(
        f"By {split['by']}, in the common pool",
        [split["by"], "requests", "prompt tokens"],
        _pools(groups[0]["pools"]),
    )
    for group in groups[:MOST_GROUPS]:
        cells = (f"{group['requests']:,}", f"{group['query_tokens']:,}", *_rates(group["pools"]))
        table.add_row(escape(printable(group["name"])), *cells)
    if len(groups) > MOST_GROUPS:
        table.caption = f"and {len(groups) - MOST_GROUPS:,} more (--json has all of them)"
    return table


def _routing(routing: Json) -> Table:
    policies = routing["policies"]
    table = _rates_table(
        f"Routing over {routing['replicas']} replicas, pool sizes of each",
        ["policy", "busiest replica"],
        _pools(policies[0]["pools"]),
    )
    for row in policies:
        share = row["busiest_replica_share"]
        table.add_row(row["policy"], percent(share, 1), *_rates(row["pools"]))
    table.caption = "; ".join(f"{row['policy']}: {row['definition']}" for row in policies)
    return table


def _print_breaks(console: Console, breaks: list[Json]) -> None:
    for one in breaks:
        examples = " / ".join(map(repr, one["texts"]))
        gains = [("ceiling", one["ceiling_before"], one["ceiling_after"], one["gain"])]
        if one["pool_blocks"] is not None:
            pool = f"in {one['pool_blocks']:,} blocks"
            gains.append((pool, one["hit_rate_before"], one["hit_rate_after"], one["gain_in_pool"]))
        said = (
            f"{name} {percent(was, 4)} -> {percent(now, 4)} ({points(gain)})" for name, was, now, gain in gains
        )
        console.print(
            f"reuse breaks: {one['group']}: {one['requests']:,} of {one['of_requests']:,} prompts stop to agree "
            f"with earlier ones at token {one['token']:,}: {one['cause']} ({examples}); {one['fix']}: "
            f"{', '.join(said)}",
            markup=False,
        )
    if not breaks:
        console.print("reuse breaks: no text found whose removal gains")


def _rates_table(title: str, first: Sequence[str], rates: Sequence[str]) -> Table:
    table = Table(title=f"{title} (engine-like hit rate)")
    table.add_column(first[0])
    for name in (*first[1:], *rates):
        table.add_column(name, justify="right")
    return table


def _print_findings(console: Console, answer: Json) -> None:
    for note in answer["notes"]:
        console.print(f"note: {note}", markup=False)
    for kind, findings in (("skipped", answer["rejected"]), ("warning", answer["warnings"])):
        for finding in findings[:MOST_FINDINGS]:
            place = f"{finding['file']}, line {finding['line']}"
            console.print(f"{kind}: {place}: {finding['reason']}", markup=False)
        if len(findings) > MOST_FINDINGS:
            console.print(f"... and {len(findings) - MOST_FINDINGS:,} more (--json has all of them)")
    if answer["skipped_rows"]:
        console.print(f"{answer['skipped_rows']:,} rows skipped")


def _pools(pools: list[Json]) -> list[str]:
    return [f"{_pool(pool['pool_blocks'])} blocks" if pool["pool_blocks"] else "unlimited" for pool in pools]


def _rates(pools: list[Json]) -> list[str]:
    return [percent(pool["engine_like_hit_rate"], 4) for pool in pools]


def _pool(size: int | None) -> str:
    return "unlimited" if size is None else f"{size:,}"


def _part(part: int, whole: int) -> str:
    return percent(part / whole if whole else None)
