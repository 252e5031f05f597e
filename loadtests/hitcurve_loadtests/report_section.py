"""Our part of the HTML report and of Locust's tab: hit rate from both ends, TTFT of hits and misses, warming.

One function makes the rows that the web interface shows and the report prints.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hitcurve.rate_text import percent

__all__ = ["figure_rows", "report_section"]

_WIDTH, _HEIGHT = 640, 160

_STYLE = """
<style>
.hitcurve {font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em}
.hitcurve table {border-collapse: collapse; margin: 1em 0}
.hitcurve th, .hitcurve td {border-bottom: 1px solid #8886; padding: .3em 1em .3em 0; text-align: left}
.hitcurve td + td {text-align: right; font-variant-numeric: tabular-nums}
.hitcurve polyline {fill: none; stroke: #15803d; stroke-width: 2}
.hitcurve line {stroke: #8886}
</style>"""


def figure_rows(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(what, value): the verdict, then all about hits and first tokens; "unknown" and "–" for no value."""
    cache, warm, reasons = results["cache"], results["warm"], "; ".join(results["reasons"])
    rows = [
        ("verdict", f"{results['verdict']}: {reasons}" if reasons else results["verdict"]),
        ("hit rate (cached / prompt tokens, clients)", _percent(cache["hit_rate"])),
        ("requests whose cached tokens are unknown", str(cache["unknown"])),
    ]
    if warm["after_requests"]:
        rows.append((f"hit rate after {warm['after_requests']} requests", _percent(warm["hit_rate"])))
    if (aim := results.get("intended")) is not None and aim["ceiling"] is not None:
        rows.append(("ceiling of the traffic", _percent(aim["ceiling"])))
    if (engine := results.get("engine")) is not None:
        rows.append(("hit rate (the engine's own counters)", _percent(engine["hit_rate"])))
    for kind, title in (("all", "TTFT"), ("hits", "TTFT of hits"), ("misses", "TTFT of misses")):
        times = results["ttft_s"][kind]
        for percentile in ("p50", "p99"):
            rows.append((f"{title} {percentile} ({times['count']} requests)", _ms(times[percentile])))
    rows.append(("time per output token p50", _ms(results["tpot_s"]["p50"])))
    if results["queue_s"]["count"]:
        rows.append(("queue p50, as the engine says", _ms(results["queue_s"]["p50"])))
    rows.append(("generator's hub lag p99", _ms(results["lag_s"]["hub"]["p99"])))
    if results["lag_s"]["send"]["count"]:
        rows.append(("sent late p99", _ms(results["lag_s"]["send"]["p99"])))
    return rows


def report_section(results: Mapping[str, Any], title: str) -> str:
    """HTML that stands on its own, needing no network and no script; ``title`` is HTML."""
    rows = "".join(
        f"<tr><td>{html.escape(what)}</td><td>{html.escape(value)}</td></tr>"
        for what, value in figure_rows(results)
    )
    return (
        f'{_STYLE}<section class="hitcurve" id="hitcurve"><h2>Hit rate and TTFT: {title}</h2>'
        f"{_both_ends(results.get('both_ends'))}<table>{rows}</table>{_curve(results['warming'])}</section>"
    )


def _both_ends(both: Mapping[str, Any] | None) -> str:
    if both is None:
        return ""
    lines = [("host", "clients", "engine", "explanation")]
    lines += [
        (
            row["host"],
            _percent(row["client"]["hit_rate"]),
            _percent(row["engine"]["hit_rate"]),
            row["explanation"] or "both ends agree to the token",
        )
        for row in both["hosts"]
    ]
    return f"<table>{''.join(_line(cells) for cells in lines)}</table>"


def _curve(slices: Sequence[Mapping[str, Any]]) -> str:
    """Cold, warm, steady: the hit rate over consecutive requests."""
    points = list(_points(slices))
    if len(points) < 2:
        return ""
    total = sum(slice_["requests"] for slice_ in slices)
    path = " ".join(f"{x / total * _WIDTH:.1f},{(1 - y) * _HEIGHT:.1f}" for x, y in points)
    return (
        f"<h3>Hit rate over the run, {total} requests from left to right, 0 to 100 %</h3>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" aria-label="hit rate over the run">'
        f'<line x1="0" y1="0" x2="{_WIDTH}" y2="0"/><line x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}"/>'
        f'<polyline points="{path}"/></svg>'
    )


def _points(slices: Sequence[Mapping[str, Any]]) -> Iterable[tuple[float, float]]:
    before = 0
    for slice_ in slices:
        if slice_["hit_rate"] is not None:
            yield before + slice_["requests"] / 2, slice_["hit_rate"]
        before += slice_["requests"]


def _line(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


def _percent(rate: float | None) -> str:
    return percent(rate, 1, unit=" %", none="unknown")


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * seconds:.1f} ms"
