"""The curve as one HTML file that needs nothing else."""

from html import escape
from math import ceil
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hitcurve.charts import Line, Mark, log_chart
from hitcurve.rate_text import percent
from hitcurve_simulator.estimate.arrays import Ints
from hitcurve_simulator.estimate.page_file import write_html

__all__ = ["RateCurve", "write_page"]

POINTS = 400
STYLE = """
:root { color-scheme: light dark; --page: #f7f7f5; --ink: #1c2126; --soft: #5b6570; --rule: #e2e4e3;
  --bound: #6b7280; --engine: #0b62c4; --mark: #b45309; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --ink: #e8eaec; --soft: #a2abb4; --rule: #31373d;
  --bound: #a9b2bb; --engine: #6cb0ff; --mark: #f0a35c; } }
body { margin: 0 auto; max-width: 1040px; padding: 24px 20px; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } p { max-width: 85ch; margin: 4px 0; } .soft { color: var(--soft); }
svg { width: 100%; height: auto; margin: 16px 0 4px; overflow: visible; }
svg .grid { stroke: var(--rule); } svg text { font-size: 12px; fill: var(--soft); }
svg .line { fill: none; stroke-width: 2; } svg .bound { stroke: var(--bound); }
svg .engine { stroke: var(--engine); }
svg .mark { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 4 3; }
svg .mark-label { fill: var(--mark); }
.legend i { display: inline-block; width: 16px; height: 3px; vertical-align: middle; margin: 0 6px 0 14px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 16px 0; }
th, td { text-align: right; padding: 4px 16px 4px 0; border-bottom: 1px solid var(--rule); font-weight: 400; }
th { color: var(--soft); }
"""


class RateCurve(Protocol):
    """Hit tokens against pool size, exact or estimated."""

    @property
    def block_size(self) -> int: ...

    @property
    def query_tokens(self) -> int: ...

    @property
    def largest_pool(self) -> int: ...

    def hit_tokens(self, pools: Ints) -> Ints: ...

    def rate_in(self, pool_blocks: int | None) -> float | None: ...


def write_page(
    path: Path, answer: dict[str, Any], bound: RateCurve, engine: RateCurve, present: tuple[int, ...]
) -> None:
    """Write the page; the ``present`` pools are marked, a single one as the present pool. Raises UsageError."""
    write_html(path, _page(answer, bound, engine, present))


def _page(answer: dict[str, Any], bound: RateCurve, engine: RateCurve, present: tuple[int, ...]) -> str:
    title = f"Hit rate against pool size: {escape(answer['source'])}"
    ceiling, engine_like = answer["ceiling"], answer["ceiling"]["engine_like"]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p class="soft">{answer["requests"]:,} requests, {answer["query_tokens"]:,} prompt tokens,
{answer["query_blocks"]:,} blocks of {answer["block_size"]} tokens, {answer["distinct_blocks"]:,} distinct</p>
{_chart(bound, engine, present)}
<p class="legend soft"><i style="background: var(--engine)"></i>engine-like
<i style="background: var(--bound)"></i>all blocks</p>
<p>Ceiling {percent(engine_like["token"])} of tokens ({escape(engine_like["definition"])}).</p>
<p>Ceiling {percent(ceiling["token"])} of tokens ({escape(ceiling["definition"])}).</p>
<div class="scroll">{_table(answer)}</div>
<p class="soft">Speed-up: {escape(answer["speed_up"])}.</p>
{"".join(f'<p class="soft">{escape(note)}.</p>' for note in answer["notes"])}
</body></html>
"""


def _chart(bound: RateCurve, engine: RateCurve, present: tuple[int, ...]) -> str:
    largest = max(bound.largest_pool, engine.largest_pool, *present)
    pools = np.unique(np.geomspace(1, largest, POINTS).astype(np.int64))
    size = bound.block_size
    lines = [
        Line("all blocks", "bound", _points(bound, pools)),
        Line("engine-like", "engine", _points(engine, pools)),
    ]
    name = "present pool" if len(present) == 1 else "pool"
    marks = [Mark(pool, f"{name} {pool:,} blocks, {percent(engine.rate_in(pool))}") for pool in present]
    return log_chart(
        lines,
        title=f"Hit rate against usable blocks of {size} tokens",
        width=1000,
        height=360,
        y_max=ceil(4 * max((rate or 0.0) for line in lines for _, rate in line.points) + 0.2) / 4,
        x_label=_blocks,
        y_label=lambda rate: f"{100 * rate:.3g}%",
        marks=marks,
    )


def _points(curve: RateCurve, pools: Ints) -> list[tuple[float, float | None]]:
    tokens = curve.hit_tokens(pools).tolist()
    return [
        (float(pool), hits / curve.query_tokens if curve.query_tokens else None)
        for pool, hits in zip(pools.tolist(), tokens, strict=True)
    ]


def _table(answer: dict[str, Any]) -> str:
    rows = []
    for point in answer["curve"]:
        speed_up = point["speed_up"]
        cells = (
            f"{point['pool_blocks']:,}",
            f"{point['pool_tokens']:,}",
            *([f"{point['pool_gib']:,.1f}"] if "pool_gib" in point else []),
            percent(point["hit_rate"]),
            percent(point["engine_like_hit_rate"]),
            "no value" if speed_up is None else f"{speed_up:.2f}x",
        )
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    gib = ["GiB"] if "pool_gib" in answer["curve"][0] else []
    titles = ("pool, blocks", "tokens", *gib, "all blocks", "engine-like", "speed-up")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _blocks(value: float) -> str:
    for unit, factor in (("M", 1e6), ("k", 1e3)):
        if value >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"
