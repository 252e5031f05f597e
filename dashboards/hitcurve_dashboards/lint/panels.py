"""The rules for one panel: what it says about itself, how it looks, and what it asks."""

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

import promql_parser

from hitcurve_dashboards.grafana.looks import CAUSE_COLOURS, REASON_COLOURS, SOURCE_COLOURS, STATE_COLOURS
from hitcurve_dashboards.lint.expressions import expression_problems, spelling_problems
from hitcurve_dashboards.lint.labels import result_labels
from hitcurve_dashboards.lint.tree import metrics_in, parsed, selectors
from hitcurve_dashboards.lint.units import is_unit, unit_problems
from hitcurve_dashboards.names import Kind

__all__ = ["TEMPLATED", "panel_problems"]

TEMPLATED = re.compile(r"\$\{\w*datasource\}|\$\w*datasource|-- Grafana --")
"""Uids of data sources that a Grafana resolves by itself."""
_FIXED_RANGE = re.compile(r"\b(?:rate|irate|increase)\([^\[]*\[(?!\$__rate_interval\])")
_OVER_TIME = ("timeseries", "state-timeline", "heatmap")
_ONE_TRACE = re.compile(r"\$\w+")
_VARIABLE = re.compile(r"\$(?!__)(\w+)")
_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_NAMED = re.compile(r"`([a-z_:0-9]+)`")
_COLOURS: tuple[Mapping[str, str], ...] = (STATE_COLOURS, CAUSE_COLOURS, REASON_COLOURS, SOURCE_COLOURS)

Document = Mapping[str, Any]
Known = Mapping[str, Kind]


def panel_problems(panel: Document, known: Known, variables: Set[str]) -> Iterator[str]:
    """What is wrong with a panel; ``variables`` are those of its dashboard."""
    if panel["type"] in ("row", "text"):
        return
    if panel["type"] == "annolist":
        yield from _list_of_events(panel)
        return
    yield from _panel(panel)
    yield from _looks(panel)
    yield from _targets(panel, known, variables)
    yield from _description(panel, known)


def _panel(panel: Document) -> Iterator[str]:
    defaults = panel.get("fieldConfig", {}).get("defaults", {})
    if not panel.get("title"):
        yield "no title"
    if "?" not in panel.get("description", ""):
        yield "its description asks no question"
    if not is_unit(defaults.get("unit", "")):
        yield f"no valid unit: '{defaults.get('unit', '')}'"
    if not re.search("[A-Za-z]", defaults.get("noValue", "")):
        yield "no text for no value"
    if not panel.get("targets"):
        yield "no queries"
    if not TEMPLATED.fullmatch(panel.get("datasource", {}).get("uid", "")):
        yield "its data source is fixed"


def _looks(panel: Document) -> Iterator[str]:
    settings = panel.get("fieldConfig", {})
    defaults = settings.get("defaults", {})
    if defaults.get("unit") == "percentunit" and defaults.get("max", 1) != 1:
        yield "percentunit is a share: its maximum is 1"
    bounds = [step["value"] for step in defaults.get("thresholds", {}).get("steps", ())]
    if bounds and (bounds[0] is not None or bounds[1:] != sorted(bounds[1:])):
        yield "thresholds do not rise from the lowest, which has no bound"
    given = [
        (override["matcher"]["options"], one["value"].get("fixedColor"))
        for override in settings.get("overrides", ())
        for one in override["properties"]
        if one["id"] == "color"
    ]
    shown = [value for one in defaults.get("mappings", ()) for value in one["options"].values()]
    given += [(value["text"].replace(" ", "_"), value["color"]) for value in shown]
    for name, colour in given:
        own = {colours[name] for colours in _COLOURS if name in colours}
        if own and colour not in own:
            yield f"{name} has another colour here than elsewhere"


def _description(panel: Document, known: Known) -> Iterator[str]:
    """Every metric of the queries is named, and no other."""
    asked = [target["expr"] for target in panel.get("targets", ()) if "expr" in target]
    names = {name for expr in asked for name in metrics_in(expr, known)}
    named = set(_NAMED.findall(panel.get("description", "")))
    for name in sorted(names - named):
        yield f"its description does not name {name}"
    for name in sorted(named - names):
        yield f"its description names {name}, which it does not ask for"


def _list_of_events(panel: Document) -> Iterator[str]:
    if "?" not in panel.get("description", ""):
        yield "its description asks no question"
    if not panel["options"].get("tags"):
        yield "no tags: it lists the events of everybody"


def _targets(panel: Document, known: Known, variables: Set[str]) -> Iterator[str]:
    targets = panel.get("targets", [])
    if len({target["refId"] for target in targets}) < len(targets):
        yield "two queries have one refId: Grafana keeps one of them"
    for target in targets:
        if not TEMPLATED.fullmatch(target.get("datasource", {}).get("uid", "")):
            yield "the data source of a query is fixed"
        text = target["query"] if "query" in target else target["expr"]
        for name in sorted(set(_VARIABLE.findall(text)) - variables):
            yield f"${name} is no variable of this dashboard"
        if target.get("datasource", {}).get("type") == "tempo":
            yield from _trace_search(target["query"])
            continue
        if len(targets) > 1 and target.get("legendFormat", "__auto") == "__auto":
            yield "several queries and no legend"
        yield from _kind(panel["type"], target)
        yield from _query(target, panel["fieldConfig"]["defaults"].get("unit", ""), known)


def _kind(kind: str, target: Document) -> Iterator[str]:
    """Whether the answer has the form that the panel draws."""
    if kind in _OVER_TIME and target["instant"]:
        yield f"an instant query: a {kind} has nothing to draw over time"
    wanted = {"table": "table", "heatmap": "heatmap"}.get(kind, "time_series")
    if target["format"] != wanted:
        yield f"format {target['format']}: a {kind} reads {wanted}"


def _query(target: Document, unit: str, known: Known) -> Iterator[str]:
    if _FIXED_RANGE.search(target["expr"]):
        yield "a fixed range under rate or increase: use $__rate_interval"
    problems = expression_problems(target["expr"], known)
    yield from problems
    if any(problem.startswith(("no PromQL", "$__interval")) for problem in problems):
        return
    tree = parsed(target["expr"])
    yield from _scoped(tree)
    yield from spelling_problems(tree, known)
    labels = result_labels(tree, known)
    for label in _LEGEND.findall(target.get("legendFormat", "")):
        if labels is not None and label not in labels:
            yield f"its legend shows {label}, a label that the result has not"
    if target["format"] == "time_series" and is_unit(unit):
        yield from unit_problems(tree, unit, known)


def _trace_search(query: str) -> Iterator[str]:
    """A search in TraceQL names its span, else it reads everything Tempo has; braces must match."""
    if _ONE_TRACE.fullmatch(query):
        return
    if not query.startswith('{ name="prefix_cache.') or query.count("{") != query.count("}"):
        yield "no TraceQL search of a span of the engine patch"


def _scoped(tree: Any) -> Iterator[str]:
    """Every selector follows the variables: of the job, or of the replica where jobs differ."""
    for found in selectors(tree):
        matchers = found.node.matchers.matchers
        followed = {(matcher.name, matcher.value) for matcher in matchers}
        if not followed & {("job", "$job"), ("target", "$target"), ("instance", "$instance")}:
            yield f'{found.node.name} follows no variable: add job=~"$job"'
        for matcher in matchers:
            if matcher.value.startswith("$") and matcher.op != promql_parser.MatchOp.Re:
                yield f"{matcher.name} is compared with {matcher.value}, which may be several values: use =~"
