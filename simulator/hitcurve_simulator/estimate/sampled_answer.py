"""The answer from a sample as JSON values and as a table: ceiling and curve, each rate with its error."""

from typing import Any

from rich.console import Console
from rich.table import Table

from hitcurve.rate_text import percent
from hitcurve_simulator.estimate.definitions import BOUND, ENGINE_LIKE, SPEED_UP
from hitcurve_simulator.estimate.estimate import pool_grid
from hitcurve_simulator.estimate.model_memory import KvMemory
from hitcurve_simulator.estimate.sampled_curve import Rate, SampledCurve
from hitcurve_simulator.estimate.sampled_traffic import SampledTraffic

__all__ = ["CONFIDENCE", "print_sampled", "sampled_answer"]

CONFIDENCE = 0.95
FEW_TREES = 500

Json = dict[str, Any]


def sampled_answer(
    traffic: SampledTraffic,
    bound: SampledCurve,
    engine: SampledCurve,
    pools: tuple[int, ...],
    memory: KvMemory | None,
) -> Json:
    """``requests`` and ``query_tokens`` are those of all traffic; every rate has an ``error`` beside it."""
    sampled = traffic.bound
    whole, like = bound.rate(None), engine.rate(None)
    sizes = pools or tuple(pool_grid(max(bound.largest_pool, engine.largest_pool)))
    values: Json = {
        "source": traffic.name,
        "formats": list(traffic.formats),
        "block_size": traffic.block_size,
        "requests": sampled.accesses.requests,
        "query_tokens": bound.query_tokens,
        "query_blocks": sampled.blocks + int(sampled.trunk.sum()),
        "distinct_blocks": bound.distinct_blocks,
        "sample": {
            "share": traffic.share,
            "seed": traffic.seed,
            "trees": bound.trees,
            "requests": int(sampled.drawn.sum()),
            "confidence": CONFIDENCE,
            "error": "half the width of the interval that holds the exact rate with this confidence",
        },
        "ceiling": {
            "token": whole.value,
            "error": whole.error,
            "definition": BOUND,
            "engine_like": {"token": like.value, "error": like.error, "definition": ENGINE_LIKE},
        },
        "curve": [_point(traffic, bound, engine, size, memory) for size in sizes],
        "speed_up": SPEED_UP,
    }
    if memory is not None:
        values["model"] = memory.as_json()
    values["skipped_rows"] = len(traffic.rejected)
    values["rejected"] = [
        {"file": found.file, "line": found.line, "reason": found.reason} for found in traffic.rejected
    ]
    values["warnings"] = []
    values["notes"] = list(traffic.notes)
    if bound.trees < FEW_TREES and (whole.error or like.error):
        values["notes"].append(
            f"only {bound.trees} prefix trees were drawn, too few for their errors to hold {CONFIDENCE:.0%} of "
            "the time; give a larger --sample"
        )
    return values


def _point(
    traffic: SampledTraffic, bound: SampledCurve, engine: SampledCurve, pool: int, memory: KvMemory | None
) -> Json:
    whole, like = bound.rate(pool), engine.rate(pool)
    rate = like.value
    point: Json = {
        "pool_blocks": pool,
        "pool_tokens": pool * traffic.block_size,
        "hit_rate": whole.value,
        "hit_rate_error": whole.error,
        "engine_like_hit_rate": rate,
        "engine_like_hit_rate_error": like.error,
        "speed_up": None if rate is None or rate >= 1 else 1 / (1 - rate),
    }
    if memory is not None:
        point["pool_gib"] = memory.gib_of(pool, traffic.block_size)
    return point


def print_sampled(answer: Json) -> None:
    """Print what was drawn, the ceilings and the curve."""
    console = Console(highlight=False)
    sample, ceiling = answer["sample"], answer["ceiling"]
    console.print(
        f"{answer['source']}: {answer['requests']:,} requests, {answer['query_tokens']:,} prompt tokens; sampled "
        f"{sample['share']:g} of the prefix trees: {sample['trees']:,} trees, {sample['requests']:,} requests",
        markup=False,
    )
    for rates in (ceiling, ceiling["engine_like"]):
        said = _rate(Rate(rates["token"], rates["error"]))
        console.print(f"ceiling {said} of tokens ({rates['definition']})", markup=False)
    gib = "pool_gib" in answer["curve"][0]
    table = Table(
        title="Hit rate against pool size, estimated",
        caption=f"± {sample['error']}, {sample['confidence']:.0%}; speed-up: {answer['speed_up']}",
    )
    for title in ("pool, blocks", "tokens", *(["GiB"] if gib else []), "all blocks", "engine-like", "speed-up"):
        table.add_column(title, justify="right")
    for point in answer["curve"]:
        table.add_row(
            f"{point['pool_blocks']:,}",
            f"{point['pool_tokens']:,}",
            *([f"{point['pool_gib']:,.1f}"] if gib else []),
            _rate(Rate(point["hit_rate"], point["hit_rate_error"])),
            _rate(Rate(point["engine_like_hit_rate"], point["engine_like_hit_rate_error"])),
            "no value" if point["speed_up"] is None else f"{point['speed_up']:.2f}x",
        )
    console.print(table)
    for note in answer["notes"]:
        console.print(f"note: {note}", markup=False)
    if answer["skipped_rows"]:
        first = answer["rejected"][0]
        console.print(
            f"{answer['skipped_rows']:,} rows skipped, the first: {first['file']}, line {first['line']}: "
            f"{first['reason']} (--json has all of them)",
            markup=False,
        )


def _rate(rate: Rate) -> str:
    error = "" if rate.value is None else f" ± {percent(rate.error, unit='', none='unknown')}"
    return percent(rate.value) + error
