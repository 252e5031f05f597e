"""What a dashboard is made of, as plain records; ``document`` turns them into Grafana's JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "Annotation",
    "Dashboard",
    "Override",
    "Panel",
    "PanelKind",
    "Query",
    "Row",
    "TextVariable",
    "TraceQuery",
    "Variable",
]

PanelKind = Literal[
    "timeseries", "stat", "table", "state-timeline", "heatmap", "bargauge", "text", "traces", "annolist"
]


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query of a panel.

    ``may_be_empty`` says why a healthy fleet answers it with nothing; where it is empty, no answer is a defect.
    """

    expr: str
    legend: str = ""
    instant: bool = False
    table: bool = False
    heatmap: bool = False
    exemplars: bool = False
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """A search for traces in Tempo's TraceQL, or ``$name`` of a text variable that holds one trace id."""

    query: str
    limit: int = 20


@dataclass(frozen=True, slots=True)
class Override:
    """Properties of the fields whose name matches ``regex`` (or is ``name``)."""

    properties: Mapping[str, Any]
    name: str = ""
    regex: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. ``title`` names it within its dashboard, and its id follows from that name.

    ``question`` is what somebody asks who looks at it; the metrics are added to the description by themselves.
    ``unit`` is a Grafana unit id. ``steps`` are thresholds as (from, colour), only where a judgement is meant.
    """

    title: str
    kind: PanelKind
    question: str
    queries: tuple[Query, ...] = ()
    traces: TraceQuery | None = None
    """What it asks of Tempo; it has no ``queries`` then."""
    tags: tuple[str, ...] = ()
    """Of an ``annolist``: the tags of the events in Grafana's own store that it lists."""
    unit: str = "short"
    width: int = 12
    height: int = 8
    minimum: float | None = None
    maximum: float | None = None
    decimals: int | None = None
    no_value: str = "No traffic"
    steps: tuple[tuple[float, str], ...] = ()
    mappings: tuple[Mapping[str, Any], ...] = ()
    overrides: tuple[Override, ...] = ()
    custom: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    transformations: tuple[Mapping[str, Any], ...] = ()
    links: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row of panels, laid out from left to right; a collapsed one holds what needs something special."""

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A query variable over the values of ``label`` of ``series``.

    ``all_value`` is the regular expression of "All": ``.+``, or ``.*`` where series may lack the label.
    """

    name: str
    title: str
    series: str
    label: str
    all_value: str = ".+"
    hide: bool = False
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class TextVariable:
    """A variable that somebody types, or a link fills."""

    name: str
    title: str
    default: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """Marks on the time axis: where ``expr`` has a value, or events that carry ``tags`` in Grafana's own store."""

    name: str
    colour: str
    expr: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard. ``uid`` is stable: links and bookmarks hold it."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    annotations: tuple[Annotation, ...] = ()
    texts: tuple[TextVariable, ...] = ()
    time_from: str = "now-1h"
    refresh: str = "30s"
