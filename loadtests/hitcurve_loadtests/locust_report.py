"""Locust's HTML report with a part of our own, and Locust's statistics of several processes added up."""

import html
from collections.abc import Mapping
from typing import Any

from locust.env import Environment
from locust.html import get_html_report
from locust.stats import StatsEntry, StatsError

from hitcurve_loadtests.report_section import report_section

__all__ = ["html_report", "merge_locust_stats", "with_section"]


def html_report(environment: Environment, summary: Mapping[str, Any]) -> str:
    """Locust's own report and our section. Locust's percentiles are rounded to two digits; ours are not."""
    if environment.runner is None:
        environment.create_local_runner()
    return with_section(str(get_html_report(environment, show_download_link=False)), summary)


def with_section(page: str, summary: Mapping[str, Any]) -> str:
    """The report with our section after Locust's part."""
    title = html.escape(str(summary.get("name", "")))
    before, end, after = page.rpartition("</body>")
    section = report_section(summary, title)
    return f"{before}{section}{end}{after}" if end else page + section


def merge_locust_stats(environment: Environment, values: Mapping[str, Any]) -> None:
    """Add the statistics of another process, as Locust's own master does."""
    stats = environment.stats
    for entry in values["entries"]:
        other = StatsEntry.unserialize(_numbered(entry), stats)
        stats.get(other.name, other.method).extend(other)
    for key, error in values["errors"].items():
        known = stats.errors.get(key)
        if known is None:
            stats.errors[key] = StatsError.unserialize(error)
        else:
            known.occurrences += error["occurrences"]
    stats.total.extend(StatsEntry.unserialize(_numbered(values["total"]), stats))


def _numbered(entry: Mapping[str, Any]) -> dict[str, Any]:
    """JSON makes texts of the numbers that counts are kept under."""
    return {
        name: {int(float(key)): count for key, count in value.items()} if isinstance(value, dict) else value
        for name, value in entry.items()
    }
