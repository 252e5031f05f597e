"""The whole page: families in the order of the catalogue, in the format the reader asked for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hitcurve.catalogue import CATALOGUE, Metric
from hitcurve_exporter.page.lines import Lines

__all__ = ["OPENMETRICS", "TEXT", "PageFormat", "page"]


@dataclass(frozen=True, slots=True)
class PageFormat:
    """One of the two formats; ``heads`` are HELP and TYPE of every family of the catalogue."""

    content_type: str
    heads: Mapping[str, str]
    end: str


def _head(metric: Metric, openmetrics: bool) -> str:
    name = metric.name.removesuffix("_total") if openmetrics and metric.kind == "counter" else metric.name
    help_text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    if openmetrics:
        help_text = help_text.replace('"', '\\"')
    return f"# HELP {name} {help_text}\n# TYPE {name} {metric.kind}\n"


TEXT: Final = PageFormat(
    "text/plain; version=0.0.4; charset=utf-8", {metric.name: _head(metric, False) for metric in CATALOGUE}, ""
)
OPENMETRICS: Final = PageFormat(
    "application/openmetrics-text; version=1.0.0; charset=utf-8",
    {metric.name: _head(metric, True) for metric in CATALOGUE},
    "# EOF\n",
)


def page(parts: Sequence[Lines], form: PageFormat, foreign_families: Iterable[str] = ()) -> bytes:
    """One page of all parts. A family's samples stand together; a family without samples is left out.

    ``foreign_families`` are whole families (HELP, TYPE, samples) in the same format, without an end mark.
    """
    written: list[str] = []
    for name, head in form.heads.items():
        samples = [lines for part in parts if (lines := part.of_metric.get(name))]
        if samples:
            written.append(head)
            written += samples
    written += foreign_families
    written.append(form.end)
    return "".join(written).encode()
