"""Records to Grafana's classic dashboard JSON (schemaVersion 39, read by Grafana 11 and later).

The same records give the same bytes: ids come from names, keys are sorted when written, nothing depends on time.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from hitcurve_dashboards.grafana.layout import Place, placed
from hitcurve_dashboards.grafana.looks import custom_defaults, options_of
from hitcurve_dashboards.grafana.records import (
    Annotation,
    Dashboard,
    Override,
    Panel,
    Query,
    Row,
    TextVariable,
    TraceQuery,
    Variable,
)

__all__ = ["DATASOURCE", "as_document", "as_text"]

DATASOURCE: Mapping[str, str] = {"type": "prometheus", "uid": "${datasource}"}
_TEMPO: Mapping[str, str] = {"type": "tempo", "uid": "${tempo_datasource}"}
_GRAFANA: Mapping[str, str] = {"type": "grafana", "uid": "-- Grafana --"}
_METRIC = re.compile(
    r"\b(?:hitcurve_[a-z0-9_]+|vllm[:_][a-z0-9_]+|[a-z_]+:(?:hitcurve|vllm)_[a-z_]+:[a-z0-9_]+)\b"
)
_SCHEMA_VERSION = 39


def as_text(dashboard: Dashboard) -> str:
    """The JSON file of a dashboard."""
    return json.dumps(as_document(dashboard), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def as_document(dashboard: Dashboard) -> dict[str, Any]:
    """The JSON value of a dashboard."""
    return {
        "annotations": {"list": [_annotation(annotation) for annotation in dashboard.annotations]},
        "description": dashboard.description,
        "editable": False,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "links": [_links()],
        "panels": list(_panels(dashboard)),
        "refresh": dashboard.refresh,
        "schemaVersion": _SCHEMA_VERSION,
        "tags": ["hitcurve"],
        "templating": {"list": list(_all_variables(dashboard))},
        "time": {"from": dashboard.time_from, "to": "now"},
        "timezone": "browser",
        "title": dashboard.title,
        "uid": dashboard.uid,
    }


def _links() -> dict[str, Any]:
    """Links to the other dashboards that keep variables and time."""
    return {
        "asDropdown": False,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "tags": ["hitcurve"],
        "targetBlank": False,
        "title": "",
        "tooltip": "",
        "type": "dashboards",
        "url": "",
    }


def _all_variables(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    yield _datasource_variable("datasource", "Data source", "prometheus")
    if any(panel.traces for row in dashboard.rows for panel in row.panels):
        yield _datasource_variable("tempo_datasource", "Traces", "tempo")
    yield from map(_variable, dashboard.variables)
    yield from map(_text_variable, dashboard.texts)


def _text_variable(variable: TextVariable) -> dict[str, Any]:
    shown = {"selected": True, "text": variable.default, "value": variable.default}
    return {
        "current": shown,
        "hide": 0,
        "label": variable.title,
        "name": variable.name,
        "options": [dict(shown)],
        "query": variable.default,
        "type": "textbox",
    }


def _datasource_variable(name: str, label: str, kind: str) -> dict[str, Any]:
    return {
        "hide": 0,
        "includeAll": False,
        "label": label,
        "multi": False,
        "name": name,
        "options": [],
        "query": kind,
        "refresh": 1,
        "regex": "",
        "type": "datasource",
    }


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.series}, {variable.label})"
    return {
        "allValue": variable.all_value,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "datasource": dict(DATASOURCE),
        "definition": query,
        "hide": 2 if variable.hide else 0,
        "includeAll": True,
        "label": variable.title,
        "multi": True,
        "name": variable.name,
        "options": [],
        "query": {"qryType": 1, "query": query, "refId": f"variable-{variable.name}"},
        "refresh": 2,
        "regex": "",
        "sort": 1,
        "type": "query",
    }


def _annotation(annotation: Annotation) -> dict[str, Any]:
    common = {"enable": True, "hide": False, "iconColor": annotation.colour, "name": annotation.name}
    if annotation.tags:
        target = {"limit": 200, "matchAny": True, "tags": list(annotation.tags), "type": "tags"}
        return {**common, "datasource": dict(_GRAFANA), "target": target}
    return {
        **common,
        "datasource": dict(DATASOURCE),
        "expr": annotation.expr,
        "titleFormat": annotation.title,
    }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    y = 0
    for row in dashboard.rows:
        places = placed(row.panels, y + 1)
        panels = [_panel(dashboard.uid, panel, place) for panel, place in zip(row.panels, places, strict=True)]
        yield _row(dashboard.uid, row, y, panels)
        if row.collapsed:
            y += 1
        else:
            yield from panels
            y = max(place.y + place.height for place in places)


def _row(uid: str, row: Row, y: int, panels: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "collapsed": row.collapsed,
        "gridPos": {"h": 1, "w": 24, "x": 0, "y": y},
        "id": _id(uid, f"row {row.title}"),
        "panels": panels if row.collapsed else [],
        "title": row.title,
        "type": "row",
    }


def _panel(uid: str, panel: Panel, place: Place) -> dict[str, Any]:
    document = {
        "description": _description(panel),
        "gridPos": {"h": place.height, "w": place.width, "x": place.x, "y": place.y},
        "id": _id(uid, panel.title),
        "options": options_of(panel),
        "title": panel.title,
        "type": panel.kind,
    }
    if panel.kind in ("text", "annolist"):
        return document
    targets = [_target(query, chr(ord("A") + position)) for position, query in enumerate(panel.queries)]
    document |= {
        "datasource": dict(_TEMPO if panel.traces else DATASOURCE),
        "fieldConfig": {"defaults": _defaults(panel), "overrides": [_override(one) for one in panel.overrides]},
        "targets": [_trace_target(panel.traces)] if panel.traces else targets,
    }
    if panel.transformations:
        document["transformations"] = [dict(one) for one in panel.transformations]
    return document


def _description(panel: Panel) -> str:
    metrics = sorted({name for query in panel.queries for name in _METRIC.findall(query.expr)})
    named = ", ".join(f"`{name}`" for name in metrics)
    return f"{panel.question}\n\nMetrics: {named}." if metrics else panel.question


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "color": {"mode": "thresholds" if panel.steps else "palette-classic"},
        "custom": custom_defaults(panel),
        "links": [dict(link) for link in panel.links],
        "mappings": [dict(mapping) for mapping in panel.mappings],
        "noValue": panel.no_value,
        "thresholds": {"mode": "absolute", "steps": _steps(panel)},
        "unit": panel.unit,
    }
    for key, value in (("min", panel.minimum), ("max", panel.maximum), ("decimals", panel.decimals)):
        if value is not None:
            defaults[key] = value
    if not panel.steps and panel.kind == "stat":
        defaults["color"] = {"fixedColor": "blue", "mode": "fixed"}
    return defaults


def _steps(panel: Panel) -> list[dict[str, Any]]:
    if not panel.steps:
        return [{"color": "blue", "value": None}]
    first, *others = panel.steps
    return [{"color": first[1], "value": None}, *({"color": colour, "value": at} for at, colour in others)]


def _override(override: Override) -> dict[str, Any]:
    matcher = (
        {"id": "byName", "options": override.name}
        if override.name
        else {"id": "byRegexp", "options": f"/{override.regex}/"}
    )
    properties = [{"id": key, "value": value} for key, value in override.properties.items()]
    return {"matcher": matcher, "properties": properties}


def _target(query: Query, ref_id: str) -> dict[str, Any]:
    return {
        "datasource": dict(DATASOURCE),
        "exemplar": query.exemplars,
        "expr": query.expr,
        "format": "table" if query.table else "heatmap" if query.heatmap else "time_series",
        "instant": query.instant,
        "legendFormat": query.legend or "__auto",
        "range": not query.instant,
        "refId": ref_id,
    }


def _trace_target(query: TraceQuery) -> dict[str, Any]:
    return {
        "datasource": dict(_TEMPO),
        "filters": [],
        "limit": query.limit,
        "query": query.query,
        "queryType": "traceql",
        "refId": "A",
        "tableType": "spans",
    }


def _id(uid: str, name: str) -> int:
    """An id that stays the same when panels are added, removed or moved."""
    return zlib.crc32(f"{uid}/{name}".encode()) % 1_000_000_000 + 1
