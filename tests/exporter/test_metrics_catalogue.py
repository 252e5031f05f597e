"""The catalogue: names by the rules, and the documents that list them."""

import re
from pathlib import Path

import pytest

from hitcurve.catalogue import CATALOGUE, GROUPS, Metric, metric_named
from hitcurve.flags import ALL_FLAGS
from hitcurve.reading import CAUSES, STATES
from hitcurve_exporter.scraping.fetched import FAILURE_REASONS

BY_NAME = pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)


@BY_NAME
def test_a_name_follows_the_rules(metric: Metric) -> None:
    assert re.fullmatch(r"hitcurve_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not metric.name.endswith(("_count", "_sum", "_bucket", "_created"))
    assert all(re.fullmatch(r"[a-z_]+", label) for label in metric.labels)
    assert metric.group in GROUPS
    assert metric.help.endswith(".")
    assert metric_named(metric.name) is metric


def test_no_name_is_listed_twice() -> None:
    names = [metric.name for metric in CATALOGUE]
    assert sorted(set(names)) == sorted(names)


def test_the_document_lists_what_the_catalogue_lists(repository: Path) -> None:
    rows = re.findall(r"^\| `(hitcurve_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", document(repository), re.MULTILINE)
    expected = [
        (metric.name, metric.kind, ", ".join(f"`{label}`" for label in metric.labels) or "–", metric.help)
        for group in GROUPS
        for metric in CATALOGUE
        if metric.group == group
    ]
    assert rows == expected


@pytest.mark.parametrize("names", [STATES, CAUSES, FAILURE_REASONS, tuple(ALL_FLAGS)])
def test_the_document_lists_every_label_value(repository: Path, names: tuple[str, ...]) -> None:
    missing = [name for name in names if f"`{name}`" not in document(repository)]
    assert missing == []


def document(repository: Path) -> str:
    return (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
