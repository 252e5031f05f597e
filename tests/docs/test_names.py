"""Names that the documentation uses exist: metrics, environment variables, test files."""

import re
from pathlib import Path

from hitcurve_dashboards.names import known_metrics

METRIC = re.compile(r"(?<![:/\w-])hitcurve_[a-z0-9_]+[a-z0-9]\b(?!\.\w|[:/*]|_)")
VARIABLE = re.compile(r"\bHITCURVE_[A-Z_]+[A-Z]\b(?!_)")
TEST = re.compile(r"\btests/[\w/]+\.\w+")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
FENCED = re.compile(r"```.*?```", re.DOTALL)
NOT_METRICS = {
    *("hitcurve_engine", "hitcurve_simulator", "hitcurve_exporter", "hitcurve_loadtests", "hitcurve_chaos"),
    *("hitcurve_dashboards", "hitcurve_version"),
}
"""Packages, and a field of run.json."""


def pages(root: Path) -> list[Path]:
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "examples").glob("*")])


def sources(root: Path) -> str:
    folders = ("hitcurve", "engine_patch", "simulator", "exporter", "loadtests", "chaos", "dashboards", "tests")
    files = [path for folder in folders for path in (root / folder).rglob("*.py")]
    return "\n".join(path.read_text(encoding="utf-8") for path in [*files, root / "compose.yaml"])


def test_every_metric_named_exists(repository: Path) -> None:
    known = known_metrics().keys() | NOT_METRICS
    # Labels come from the code as well, and a run's own page has a metric of its own.
    code = sources(repository)
    assert sum(len(METRIC.findall(page.read_text(encoding="utf-8"))) for page in pages(repository)) > 100
    unknown = [
        f"{page.relative_to(repository)}: {name}"
        for page in pages(repository)
        for name in sorted(set(METRIC.findall(page.read_text(encoding="utf-8"))))
        if name not in known and f'"{name}"' not in code
    ]
    assert unknown == []


def test_a_metric_is_found_wherever_it_stands_and_a_module_is_none() -> None:
    text = "`hitcurve_up`, hitcurve_hit_tokens_total{}. hitcurve_engine.ledger, chaos/hitcurve_chaos/x, hitcurve_*"
    assert METRIC.findall(text) == ["hitcurve_up", "hitcurve_hit_tokens_total"]
    assert METRIC.findall("ends with hitcurve_up.") == ["hitcurve_up"]


def test_every_variable_named_is_read_somewhere(repository: Path) -> None:
    code = sources(repository)
    named = {
        (page.relative_to(repository).as_posix(), name)
        for page in pages(repository)
        for name in VARIABLE.findall(page.read_text(encoding="utf-8"))
    }
    assert len({name for _, name in named}) > 10
    assert sorted((page, name) for page, name in named if name not in code) == []


def test_every_test_named_is_there(repository: Path) -> None:
    named = {
        (page.relative_to(repository).as_posix(), path)
        for page in pages(repository)
        for path in TEST.findall(page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert sorted((page, path) for page, path in named if not (repository / path).exists()) == []


def test_every_file_linked_is_there_without_the_site(repository: Path) -> None:
    """Whoever reads the pages where the sources are has no pages that the site generates."""
    dead = []
    for page in [*pages(repository), *(repository / "dashboards").glob("preview/*.md")]:
        if page.suffix != ".md":
            continue
        text = FENCED.sub("", page.read_text(encoding="utf-8"))
        links = [link for link in LINK.findall(text) if "://" not in link and not link.startswith("mailto:")]
        dead += [f"{page.relative_to(repository)}: {link}" for link in links if not (page.parent / link).exists()]
    assert dead == []
