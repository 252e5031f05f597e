"""The report page: figures put into the template, written as one file."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from math import ceil
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from hitcurve.charts import Band, Line, Strip, distribution_chart, time_chart
from hitcurve.errors import UsageError
from hitcurve.rate_text import percent
from hitcurve.reading import STATES
from hitcurve.whole_file import write_whole
from hitcurve_chaos.report.figures import (
    Curve,
    curves,
    drops,
    fault_bands,
    latency,
    percentile,
    time_range,
)
from hitcurve_chaos.report.run_folder import RunFolder, load_run_folder

__all__ = ["REPORT_FILE", "write_report"]

REPORT_FILE = "report.html"
WIDE, NARROW = 1000.0, 420.0
PERCENTILES = (0.5, 0.9, 0.99)


def write_report(folder: Path) -> Path:
    """Write ``folder/report.html`` from the records of the run and return its path.

    Raises UsageError where the folder is not a run folder, holds unreadable records or takes no file.
    """
    html = _render(load_run_folder(folder))
    path = folder / REPORT_FILE
    try:
        write_whole(path, html)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}); move away what is there, or make the folder writable."
        ) from error
    return path


def _render(run: RunFolder) -> str:
    start_s, end_s = time_range(run)
    span = (0.0, end_s - start_s)
    bands = fault_bands(run, start_s)
    assets = files("hitcurve_chaos.report") / "assets"
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(rate=_rate, seconds=_seconds, number=_number, clock=_clock)
    template = environment.from_string((assets / "report.html.j2").read_text())
    return template.render(
        run=run.run,
        style=Markup((assets / "report.css").read_text()),
        script=Markup((assets / "report.js").read_text()),
        started=datetime.fromtimestamp(start_s, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        duration_s=end_s - start_s,
        verdicts=[{"judgements": (), **verdict} for verdict in run.verdicts],
        skipped=run.skipped,
        start_s=start_s,
        curves=[_figures(curve, run, bands, span, start_s) for curve in curves(run, start_s)],
        latency=_latency(run),
        loads=_loads(run),
        configuration=json.dumps(run.run, indent=2, sort_keys=True),
        journal=run.journal,
        cut_lines=run.cut_lines,
    )


def _figures(
    curve: Curve, run: RunFolder, bands: Sequence[Band], span: tuple[float, float], start_s: float
) -> dict[str, Any]:
    rates = [curve.rate_based, curve.request_window, curve.cumulative]
    return {
        "curve": curve,
        "main": _both("Rate-based hit rate and curve state", [curve.rate_based], bands, span, strip=curve.states),
        "three": _both("Rate-based, request-window and cumulative hit rate", rates, bands, span),
        "usage": _both("KV usage", [curve.kv_usage], bands, span, height=150.0),
        "evictions": _evictions(curve, bands, span),
        "faults": [
            {"scenario": verdict["scenario"], "drops": drops(curve, from_s, _until(verdict, start_s, span[1]))}
            for verdict in run.verdicts
            if verdict.get("fault_from_s") is not None
            for from_s in [verdict["fault_from_s"] - start_s]
        ],
        "state_names": [state for state in STATES if any(name == state for _, _, name in curve.states.stretches)],
    }


def _until(verdict: dict[str, Any], start_s: float, end: float) -> float:
    finished = verdict.get("finished_at_s")
    return end if finished is None else finished - start_s


def _evictions(curve: Curve, bands: Sequence[Band], span: tuple[float, float]) -> Markup | None:
    most = max((y for _, y in curve.evicted_per_s.points if y is not None), default=None)
    if most is None:
        return None
    return _both(
        "Evicted blocks per second",
        [curve.evicted_per_s],
        bands,
        span,
        height=150.0,
        y_max=max(4.0 * ceil(most / 4.0), 4.0),
        percent=False,
    )


def _both(
    title: str,
    lines: Sequence[Line],
    bands: Sequence[Band],
    span: tuple[float, float],
    *,
    strip: Strip | None = None,
    height: float = 260.0,
    y_max: float = 1.0,
    percent: bool = True,
) -> Markup:
    """The chart twice, laid out for a wide and for a narrow window; the style sheet shows one of them."""
    drawn = [
        time_chart(
            lines,
            title=title,
            width=width,
            height=height,
            x_range=span,
            y_max=y_max,
            y_label=(lambda value: f"{value:.0%}") if percent else (lambda value: f"{value:.0f}"),
            bands=bands,
            strip=strip,
        )
        for width in (WIDE, NARROW)
    ]
    return Markup(f'<div class="wide">{drawn[0]}</div><div class="narrow">{drawn[1]}</div>')


def _latency(run: RunFolder) -> dict[str, Any]:
    measured = latency(run.requests)
    samples = [
        (name, css, values)
        for name, css, values in (("hits", "hits", measured.hits), ("misses", "misses", measured.misses))
        if values
    ]
    chart = None
    if samples:
        drawn = [
            distribution_chart(
                samples, title="TTFT of hits and misses", width=width, height=240.0, x_label=_seconds
            )
            for width in (WIDE, NARROW)
        ]
        chart = Markup(f'<div class="wide">{drawn[0]}</div><div class="narrow">{drawn[1]}</div>')
    rows = [
        {"name": name, "css": css, "count": len(values), "marks": [percentile(values, p) for p in PERCENTILES]}
        for name, css, values in samples
    ]
    return {"chart": chart, "rows": rows, "unknown": measured.unknown}


def _loads(run: RunFolder) -> list[dict[str, Any]]:
    names = sorted({row.load for row in run.requests})
    loads = []
    for name in names:
        rows = [row for row in run.requests if row.load == name]
        known = [row for row in rows if row.cached_tokens is not None and row.prompt_tokens]
        prompt = sum(row.prompt_tokens or 0 for row in known)
        loads.append(
            {
                "name": name,
                "requests": len(rows),
                "failed": sum(row.outcome != "ok" for row in rows),
                "hit_rate": sum(row.cached_tokens or 0 for row in known) / prompt if prompt else None,
                "ttft": percentile([row.ttft_s for row in rows if row.ttft_s is not None], 0.5),
            }
        )
    return loads


def _rate(value: float | None) -> str:
    return percent(value, 1)


def _seconds(value: float | None) -> str:
    if value is None:
        return "no value"
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def _number(value: object) -> str:
    if value is None:
        return "no value"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def _clock(value: float) -> str:
    minutes, seconds = divmod(round(value), 60)
    return f"{minutes}:{seconds:02d}"
