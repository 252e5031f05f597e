"""The rules for a dashboard's JSON: what Grafana's own linter asks, and what it cannot know."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hitcurve_dashboards.lint.expressions import expression_problems, spelling_problems
from hitcurve_dashboards.lint.panels import TEMPLATED, panel_problems
from hitcurve_dashboards.lint.tree import parsed
from hitcurve_dashboards.names import Kind

__all__ = ["all_panels", "dashboard_problems", "problems_between"]

_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
_DASHBOARD_LINK = re.compile(r"/d/(?P<uid>[\w-]+)")
_DURATION = re.compile(r"\d+[smhdw]")
_PLACEHOLDER = re.compile(r"\$\{[\w.]+(:\w+)?\}")
_REPLICA_LABELS = ("target", "instance")
_CLASSIC_SCHEMAS = range(39, 42)
"""What Grafana 11 and later read as it stands; older ones are migrated on every load."""

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
    if any(key.startswith("__") for key in document) or document.get("id") is not None:
        yield "exported for import (__inputs, __requires or an id): provisioning cannot resolve its data source"
    if document.get("editable", True):
        yield "editable: changes made in the browser are lost at the next provisioning"
    if not document.get("description"):
        yield "no description"
    if document.get("schemaVersion") not in _CLASSIC_SCHEMAS:
        yield f"schemaVersion {document.get('schemaVersion')} is not that of Grafana 11"
    if not _DURATION.fullmatch(document.get("refresh", "")):
        yield f"refresh '{document.get('refresh', '')}' is no duration"
    shown = document.get("time", {})
    if not re.fullmatch(rf"now-{_DURATION.pattern}", shown.get("from", "")) or shown.get("to") != "now":
        yield "the time it shows at first does not end now"
    yield from _links(document)


def _links(document: Document) -> Iterator[str]:
    """The row of links to every dashboard with the same tag."""
    links = [link for link in document.get("links", ()) if link["type"] == "dashboards"]
    if not links:
        yield "no links to the other dashboards"
    for link in links:
        if not set(link["tags"]) & set(document.get("tags", ())):
            yield "it has none of the tags of its links: the other dashboards do not lead here"
        for key, kept in (("includeVars", "the variables"), ("keepTime", "the time")):
            if not link.get(key):
                yield f"its links do not keep {kept}"


def problems_between(documents: Sequence[Document]) -> Iterator[str]:
    """What is wrong with dashboards as a set: names used twice, links from a panel that lead nowhere or forget."""
    for key in ("uid", "title"):
        values = [document[key] for document in documents]
        for value in sorted({value for value in values if values.count(value) > 1}):
            yield f"{key} {value} is used more than once"
    variables = {
        document["uid"]: {variable["name"] for variable in document["templating"]["list"]}
        for document in documents
    }
    for document in documents:
        for title, url in _urls(document):
            place = f"{document['uid']}: link {title}"
            found = _DASHBOARD_LINK.search(url)
            if found is None or found["uid"] not in variables:
                yield f"{place}: leads to no dashboard of ours"
                continue
            shared = variables[document["uid"]] & variables[found["uid"]]
            yield from (f"{place}: {problem}" for problem in _forgotten(url, shared))


def _urls(document: Document) -> Iterator[tuple[str, str]]:
    for panel in all_panels(document):
        settings = panel.get("fieldConfig", {})
        places = [settings.get("defaults", {}).get("links", [])]
        places += [
            one["value"]
            for override in settings.get("overrides", ())
            for one in override["properties"]
            if one["id"] == "links"
        ]
        yield from ((link["title"], link["url"]) for links in places for link in links)


def _forgotten(url: str, shared: set[str]) -> Iterator[str]:
    if re.search(r"[${}]", _PLACEHOLDER.sub("", url)):
        yield "has a placeholder that Grafana cannot read"
    if "${__url_time_range}" not in url:
        yield "does not keep the time"
    if "${__all_variables}" in url:
        yield "sends all variables: one that it sets as well is sent twice, and a text field ignores both"
        return
    for name in sorted(shared):
        times = url.count(f"${{{name}:queryparam}}") + url.count(f"var-{name}=")
        if times != 1:
            yield f"sends the variable {name} {times} times, not once"


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
    before: list[str] = []
    for name, variable in variables.items():
        if variable["type"] == "textbox":
            continue
        yield from (f"variable {name}: {problem}" for problem in _variable(variable, known))
        for other in before:
            if f"${other}" not in variable["query"]["query"]:
                yield f"variable {name}: does not follow ${other}, which stands before it"
        before.append(name)


def _variable(variable: Document, known: Known) -> Iterator[str]:
    if not TEMPLATED.fullmatch(variable["datasource"]["uid"]):
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
    problems = expression_problems(found["series"], known)
    yield from (problem for problem in problems if not problem.startswith("counter"))
    if not any(problem.startswith("no PromQL") for problem in problems):
        yield from spelling_problems(parsed(found["series"]), known)


def _annotations(document: Document, known: Known) -> Iterator[str]:
    for annotation in document["annotations"]["list"]:
        place = f"annotation {annotation['name']}"
        if not TEMPLATED.fullmatch(annotation["datasource"]["uid"]):
            yield f"{place}: its data source is fixed"
        if "expr" in annotation and not annotation.get("titleFormat"):
            yield f"{place}: its marks have no title"
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
            if place["x"] + place["w"] > 24 or place["x"] < 0:
                yield f"panel {panel['title']}: beyond the edge"
            if place["w"] < 1 or place["h"] < 1:
                yield f"panel {panel['title']}: has no size"
            for other in siblings[position + 1 :]:
                if _overlap(place, other["gridPos"]):
                    yield f"panels {panel['title']} and {other['title']} overlap"


def _overlap(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )


def _panels(document: Document, known: Known) -> Iterator[str]:
    variables = {variable["name"] for variable in document["templating"]["list"]}
    for panel in all_panels(document):
        place = f"panel {panel.get('title') or panel.get('id')}"
        yield from (f"{place}: {problem}" for problem in panel_problems(panel, known, variables))
