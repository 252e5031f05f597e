"""The rows as bars in one HTML file that needs nothing else."""

from html import escape
from pathlib import Path
from typing import Any

from hitcurve.rate_text import percent
from hitcurve_simulator.estimate.page_file import write_html
from hitcurve_simulator.reconcile.table import GAP_TITLES, traffic_name

__all__ = ["write_page"]

STYLE = """
:root { color-scheme: light dark; --page: #f7f7f5; --ink: #1c2126; --soft: #5b6570; --rule: #d9dcdb;
  --measurement: #0b62c4; --cold_start: #8a94a0; --rounding_and_last_token: #c3c9cf; --isolation: #8e5bb5;
  --eviction: #c2541b; --concurrency: #b8860b; --unknown: #1c2126; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --ink: #e8eaec; --soft: #a2abb4; --rule: #31373d;
  --measurement: #4f9bf0; --cold_start: #76808a; --rounding_and_last_token: #4a525a; --isolation: #b78be0;
  --eviction: #e88850; --concurrency: #d8b04a; --unknown: #e8eaec; } }
body { margin: 0 auto; max-width: 1040px; padding: 24px 20px; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 28px 0 2px; font-weight: 600; }
p { max-width: 85ch; margin: 4px 0; } .soft { color: var(--soft); font-variant-numeric: tabular-nums; }
.bar { position: relative; display: flex; height: 26px; margin: 6px 0 22px; border-radius: 3px;
  outline: 1px solid var(--rule); }
.bar span { display: block; }
.bar i { position: absolute; top: -5px; bottom: -5px; border-left: 2px solid var(--ink); }
.bar i b { position: absolute; top: 36px; left: -2px; font: 12px system-ui, sans-serif; white-space: nowrap;
  transform: translateX(-50%); color: var(--soft); }
.legend span { display: inline-block; margin-right: 18px; }
.legend i { display: inline-block; width: 12px; height: 12px; margin-right: 6px; border-radius: 2px; }
"""


def write_page(path: Path, answer: dict[str, Any]) -> None:
    """Write the page: a bar for each row, ceiling and prediction marked. Raises UsageError."""
    title = f"Ceiling, prediction and measurement: {escape(answer['log'])}"
    legend = "".join(
        f'<span><i style="background: var(--{name})"></i>{label}</span>'
        for name, label in {"measurement": "measurement", **GAP_TITLES}.items()
    )
    reasons = "".join(f"<p>{escape(reason)}.</p>" for reason in answer["reasons"])
    notes = "".join(f'<p class="soft">{escape(note)}.</p>' for note in answer["notes"])
    gaps = "".join(
        f'<p class="soft">{GAP_TITLES[name]}: {escape(meaning)}.</p>' for name, meaning in answer["gaps"].items()
    )
    write_html(
        path,
        f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p class="soft">{answer["requests"]:,} requests; verdict: {answer["verdict"]}</p>
{reasons}
<p class="legend soft">{legend}</p>
{"".join(_row(row) for row in answer["rows"])}
{notes}
<p>Measurement and all gaps add up to the tokens that were looked up.</p>
{gaps}
</body></html>
""",
    )


def _row(row: dict[str, Any]) -> str:
    names = escape(traffic_name(row))
    rates = ", ".join(f"{name} {percent(row[name])}" for name in ("ceiling", "prediction", "measurement"))
    unknown = row["gap_points"]["unknown"]
    return (
        f"<h2>{names}</h2>\n"
        f'<p class="soft">{row["requests"]:,} requests: {rates}, unknown {_points(unknown)}</p>\n{_bar(row)}\n'
    )


def _bar(row: dict[str, Any]) -> str:
    """Parts below zero have no length; the marks show where they are."""
    measured = row["measurement"]
    if measured is None:
        return ""
    parts = {
        "measurement": 100 * measured,
        **{name: row["gap_points"][name] or 0.0 for name in reversed(GAP_TITLES)},
    }
    spans = "".join(
        f'<span style="width: {points:.3f}%; background: var(--{name})" title="{name} {points:.2f} points"></span>'
        for name, points in parts.items()
        if points > 0
    )
    marks = "".join(
        f'<i style="left: {100 * row[name]:.3f}%"><b>{name}</b></i>'
        for name in ("ceiling", "prediction")
        if row[name] is not None and (name == "ceiling" or abs(row[name] - row["ceiling"]) > 0.08)
    )
    return f'<div class="bar">{spans}{marks}</div>'


def _points(value: float | None) -> str:
    return "no value" if value is None else f"{value:+.2f} points"
