"""The rules for a dashboard's JSON: what Grafana's own linter asks, and what it cannot know."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hitcurve_dashboards.lint.expressions import expression_problems
from hitcurve_dashboards.lint.tree import parsed, selectors
from hitcurve_dashboards.names import Kind

__all__ = ["all_panels", "dashboard_problems"]

_TEMPLATED = re.compile(r"\$\{\w*datasource\}|\$\w*datasource|-- Grafana --")
_UNIT = re.compile(r"(short|none|s|ms|bytes|percentunit|(count|suffix|prefix):.+)")
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
_FIXED_RANGE = re.compile(r"\b(?:rate|irate|increase)\([^\[]*\[(?!\$__rate_interval\])")
_ONE_TRACE = re.compile(r"\$\w+")
_REPLICA_LABELS = ("target", "instance")

Document = Mapping[str, Any]
Known = Mapping[str, Kind]


def dashboard_problems(document: Document, known: Known) -> list[str]:
    """What is wrong with a dashboard, each with the panel or variable it is in."""
    rules: tuple[Callable[[Document, Known], Iterator[str]], ...] = (
        _head,
        _variables,
        _annotations,
        _ids_and_layout,
        _panels,
    )
    return [problem for rule in rules for problem in rule(document, known)]


def all_panels(document: Document) -> Iterator[Document]:
    """Every panel, those in collapsed rows too; rows themselves first."""
    for panel in document["panels"]:
        yield panel
        yield from panel.get("panels", [])


def _head(document: Document, known: Known) -> Iterator[str]:
    if not document.get("uid"):
        yield "no uid: links and bookmarks would break at each import"
    if "__inputs" in document or document.get("id") is not None:
        yield "exported for import (__inputs or an id): provisioning cannot resolve its data source"
    if document.get("editable", True):
        yield "editable: changes made in the browser are lost at the next provisioning"
    if not document.get("description"):
        yield "no description"


def _variables(document: Document, known: Known) -> Iterator[str]:
    variables = {variable["name"]: variable for variable in document["templating"]["list"]}
    source = variables.pop("datasource", None)
    if source is None or source["type"] != "datasource" or source.get("label") != "Data source":
        yield "no variable 'datasource' labelled 'Data source'"
    if "job" not in variables or not variables.keys() & set(_REPLICA_LABELS):
        yield "no variable for job, or none for target or instance"
    traces = variables.pop("tempo_datasource", None)
    if traces is not None and traces["type"] != "datasource":
        yield "the variable 'tempo_datasource' is no data source"
    for name, variable in variables.items():
        if variable["type"] == "textbox":
            continue
        yield from (f"variable {name}: {problem}" for problem in _variable(variable, known))


def _variable(variable: Document, known: Known) -> Iterator[str]:
    if not _TEMPLATED.fullmatch(variable["datasource"]["uid"]):
        yield "its data source is fixed"
    if not (variable.get("multi") and variable.get("includeAll")):
        yield "not more than one value may be chosen"
    if variable.get("allValue") not in (".+", ".*"):
        yield "no allValue: 'All' becomes a long alternation"
    if variable.get("refresh") != 2:
        yield "its values are not read again when the time range changes"
    if not str(variable.get("label", ""))[:1].isupper():
        yield "no label in title case"
    found = _LABEL_VALUES.fullmatch(variable["query"]["query"])
    if found is None:
        yield "no label_values(series, label)"
        return
    for problem in expression_problems(found["series"], known):
        if not problem.startswith("counter"):
            yield problem


def _annotations(document: Document, known: Known) -> Iterator[str]:
    for annotation in document["annotations"]["list"]:
        place = f"annotation {annotation['name']}"
        if not _TEMPLATED.fullmatch(annotation["datasource"]["uid"]):
            yield f"{place}: its data source is fixed"
        if "expr" in annotation:
            yield from (f"{place}: {problem}" for problem in expression_problems(annotation["expr"], known))


def _ids_and_layout(document: Document, known: Known) -> Iterator[str]:
    panels = list(all_panels(document))
    for key in ("id", "title"):
        values = [panel.get(key) for panel in panels]
        for value in sorted({str(value) for value in values if values.count(value) > 1}):
            yield f"{key} {value} is used more than once"
    for siblings in (document["panels"], *(panel.get("panels", []) for panel in document["panels"])):
        for position, panel in enumerate(siblings):
            place = panel["gridPos"]
            if place["x"] + place["w"] > 24:
                yield f"panel {panel['title']}: beyond the right edge"
            for other in siblings[position + 1 :]:
                if _overlap(place, other["gridPos"]):
                    yield f"panels {panel['title']} and {other['title']} overlap"


def _overlap(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )


def _panels(document: Document, known: Known) -> Iterator[str]:
    for panel in all_panels(document):
        if panel["type"] in ("row", "text"):
            continue
        place = f"panel {panel.get('title') or panel.get('id')}"
        if panel["type"] == "annolist":
            yield from (f"{place}: {problem}" for problem in _list_of_events(panel))
            continue
        for problem in (*_panel(panel), *_targets(panel, known)):
            yield f"{place}: {problem}"


def _panel(panel: Document) -> Iterator[str]:
    defaults = panel.get("fieldConfig", {}).get("defaults", {})
    if not panel.get("title"):
        yield "no title"
    if "?" not in panel.get("description", ""):
        yield "its description asks no question"
    if not _UNIT.fullmatch(defaults.get("unit", "")):
        yield f"no valid unit: '{defaults.get('unit', '')}'"
    if not defaults.get("noValue"):
        yield "no text for no value"
    if not panel.get("targets"):
        yield "no queries"
    if not _TEMPLATED.fullmatch(panel.get("datasource", {}).get("uid", "")):
        yield "its data source is fixed"


def _list_of_events(panel: Document) -> Iterator[str]:
    if "?" not in panel.get("description", ""):
        yield "its description asks no question"
    if not panel["options"].get("tags"):
        yield "no tags: it lists the events of everybody"


def _targets(panel: Document, known: Known) -> Iterator[str]:
    targets = panel.get("targets", [])
    for target in targets:
        if not _TEMPLATED.fullmatch(target.get("datasource", {}).get("uid", "")):
            yield "the data source of a query is fixed"
        if target.get("datasource", {}).get("type") == "tempo":
            yield from _trace_search(target["query"])
            continue
        if _FIXED_RANGE.search(target["expr"]):
            yield "a fixed range under rate or increase: use $__rate_interval"
        if len(targets) > 1 and target["legendFormat"] == "__auto":
            yield "several queries and no legend"
        problems = expression_problems(target["expr"], known)
        yield from problems
        if not any(problem.startswith("no PromQL") for problem in problems):
            yield from _scoped(target["expr"])


def _trace_search(query: str) -> Iterator[str]:
    """A search in TraceQL names its span, else it reads everything Tempo has; braces must match."""
    if _ONE_TRACE.fullmatch(query):
        return
    if not query.startswith('{ name="prefix_cache.') or query.count("{") != query.count("}"):
        yield "no TraceQL search of a span of the engine patch"


def _scoped(expr: str) -> Iterator[str]:
    """Every selector follows the variables: of the job, or of the replica where jobs differ."""
    for found in selectors(parsed(expr)):
        matchers = {(matcher.name, matcher.value) for matcher in found.node.matchers.matchers}
        if not matchers & {("job", "$job"), ("target", "$target"), ("instance", "$instance")}:
            yield f'{found.node.name} follows no variable: add job=~"$job"'
