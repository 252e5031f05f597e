"""The files that people deploy: dashboards as JSON, rules as YAML, and both for a cluster."""

from pathlib import Path, PurePosixPath

from hitcurve.errors import UsageError
from hitcurve.whole_file import write_whole
from hitcurve_dashboards.boards import DASHBOARDS
from hitcurve_dashboards.grafana.document import as_text
from hitcurve_dashboards.kubernetes import kustomization, prometheus_rule
from hitcurve_dashboards.rules.document import RUNBOOKS, as_yaml, rule_groups
from hitcurve_dashboards.rules.records import DEFAULT, Objective

__all__ = ["DASHBOARD_FOLDER", "RULE_FOLDER", "built", "differing", "write"]

DASHBOARD_FOLDER = PurePosixPath("grafana/dashboards")
RULE_FOLDER = PurePosixPath("prometheus/rules")
CLUSTER_RULES = PurePosixPath("prometheus/prometheusrule.yaml")
KUSTOMIZATION = PurePosixPath("kustomization.yaml")


def built(objective: Objective = DEFAULT, runbooks: str = RUNBOOKS) -> dict[PurePosixPath, str]:
    """Every file by its path; the same arguments give the same bytes."""
    dashboards = {DASHBOARD_FOLDER / f"{dashboard.uid}.json": as_text(dashboard) for dashboard in DASHBOARDS}
    groups = rule_groups(objective)
    rules = {RULE_FOLDER / f"{group.name}.yml": as_yaml(group, runbooks) for group in groups}
    cluster = {
        CLUSTER_RULES: prometheus_rule(groups, runbooks),
        KUSTOMIZATION: kustomization(dashboards, CLUSTER_RULES),
    }
    return dashboards | rules | cluster


def write(files: dict[PurePosixPath, str], folder: Path) -> None:
    """Write every file below the folder, each whole or not at all; UsageError where the system refuses."""
    for path, text in files.items():
        place = folder / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, text)
        except OSError as error:
            raise UsageError(f"cannot write {place}: {error.strerror}; choose another folder.") from error


def differing(files: dict[PurePosixPath, str], folder: Path) -> list[str]:
    """The files below the folder that are missing, differ from what would be built, or are no longer built."""
    problems = []
    for path, text in files.items():
        place = folder / path
        if not place.is_file():
            problems.append(f"{place} is missing")
        elif place.read_text(encoding="utf-8") != text:
            problems.append(f"{place} differs from what is built")
    for parent in sorted({path.parent for path in files}):
        known = {path.name for path in files if path.parent == parent}
        found = sorted((folder / parent).glob("hitcurve-*")) if (folder / parent).is_dir() else []
        problems.extend(f"{place} is no longer built" for place in found if place.name not in known)
    return problems
