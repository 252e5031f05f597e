"""How each kind of panel looks unless it says otherwise, and the colours that mean the same everywhere."""

from collections.abc import Mapping
from typing import Any

from hitcurve.reading import CAUSES, STATES
from hitcurve_dashboards.grafana.records import Override, Panel

__all__ = [
    "CAUSE_CODES",
    "CAUSE_COLOURS",
    "REASON_COLOURS",
    "SOURCE_COLOURS",
    "STATE_CODES",
    "STATE_COLOURS",
    "coloured",
    "custom_defaults",
    "options_of",
    "shades",
    "value_names",
]

STATE_COLOURS: Mapping[str, str] = {
    "no_traffic": "#8E8E8E",
    "cold": "#5794F2",
    "warming": "#8AB8FF",
    "steady": "#56A64B",
    "low": "#F2CC0C",
    "degraded": "#FF9830",
    "oscillating": "#B877D9",
    "collapsed": "#E02F44",
    "stalled": "#7A0F1C",
}
CAUSE_COLOURS: Mapping[str, str] = {
    "restart": "#5794F2",
    "reset": "#E02F44",
    "pool_pressure": "#FF9830",
    "lora_churn": "#B877D9",
    "traffic_shift": "#37872D",
    "isolation": "#F2CC0C",
    "short_prefix": "#C0D8FF",
    "unknown": "#8E8E8E",
}
REASON_COLOURS: Mapping[str, str] = {
    "hit": "#56A64B",
    "capacity": "#FF9830",
    "reset": "#E02F44",
    "isolated": "#F2CC0C",
    "stranded": "#B877D9",
    "tail": "#C0D8FF",
    "compulsory": "#5794F2",
    "unknown": "#8E8E8E",
}
"""Where a query token went: found, or missed for that reason; where cause and reason are one, so is the colour."""
SOURCE_COLOURS: Mapping[str, str] = {
    "local_cache_hit": REASON_COLOURS["hit"],
    "local_compute": REASON_COLOURS["compulsory"],
    "external_kv_transfer": "#96D98D",
}
"""vLLM's own words for where a prompt token came from."""
STATE_CODES: Mapping[str, int] = {state: code for code, state in enumerate(STATES, start=1)}
CAUSE_CODES: Mapping[str, int] = {cause: code for code, cause in enumerate(CAUSES, start=1)}
"""Numbers that a state timeline can plot; they are shown as words and mean nothing else."""

_TOOLTIP = {"mode": "multi", "sort": "desc"}
_LINES = {
    "axisPlacement": "auto",
    "drawStyle": "line",
    "fillOpacity": 0,
    "lineWidth": 2,
    "showPoints": "never",
    "spanNulls": False,
    "stacking": {"group": "A", "mode": "none"},
}
_CUSTOM: Mapping[str, Mapping[str, Any]] = {
    "timeseries": _LINES,
    "state-timeline": {"fillOpacity": 90, "lineWidth": 0},
    "table": {"align": "auto", "filterable": False},
}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "timeseries": {
        "legend": {
            "calcs": ["mean", "lastNotNull"],
            "displayMode": "table",
            "placement": "bottom",
            "showLegend": True,
        },
        "tooltip": _TOOLTIP,
    },
    "stat": {
        "colorMode": "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    },
    "bargauge": {
        "displayMode": "gradient",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showUnfilled": True,
        "text": {"titleSize": 14, "valueSize": 18},
    },
    "table": {"cellHeight": "sm", "showHeader": True},
    "state-timeline": {
        "alignValue": "left",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "mergeValues": True,
        "rowHeight": 0.8,
        "showValue": "auto",
        "tooltip": {"mode": "single", "sort": "none"},
    },
    "heatmap": {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 64},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "unit": "s"},
    },
    "text": {"mode": "markdown"},
    "annolist": {
        "limit": 20,
        "navigateAfter": "5m",
        "navigateBefore": "5m",
        "navigateToPanel": False,
        "onlyFromThisDashboard": False,
        "onlyInTimeRange": True,
        "showTags": True,
        "showTime": True,
        "showUser": False,
    },
}


def custom_defaults(panel: Panel) -> dict[str, Any]:
    """``fieldConfig.defaults.custom``."""
    return {**_CUSTOM.get(panel.kind, {}), **panel.custom}


def options_of(panel: Panel) -> dict[str, Any]:
    """``options``."""
    listed = {"tags": list(panel.tags)} if panel.tags else {}
    return {**_OPTIONS.get(panel.kind, {}), **listed, **panel.options}


def value_names(codes: Mapping[str, int], colours: Mapping[str, str]) -> Mapping[str, Any]:
    """A value mapping that shows each code as its name, in its colour."""
    names = {
        str(code): {"color": colours[name], "index": code, "text": name.replace("_", " ")}
        for name, code in codes.items()
    }
    return {"options": names, "type": "value"}


def coloured(colours: Mapping[str, str]) -> tuple[Override, ...]:
    """Overrides that give each series of that name its colour."""
    return tuple(
        Override({"color": {"fixedColor": colour, "mode": "fixed"}}, name=name) for name, colour in colours.items()
    )


def shades(regex: str, colour: str) -> Override:
    """An override that gives the series whose name matches shades of one colour."""
    return Override({"color": {"fixedColor": colour, "mode": "shades"}}, regex=regex)
