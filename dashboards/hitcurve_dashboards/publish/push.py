"""Brings the dashboards of a Grafana up to date, and overwrites nobody's change unasked."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hitcurve.errors import EnvironmentFailed
from hitcurve_dashboards.grafana.document import as_document
from hitcurve_dashboards.grafana.records import Dashboard
from hitcurve_dashboards.publish.grafana import Grafana, Refused

__all__ = ["Change", "push"]

_CHANGED_MEANWHILE = 412
_GRAFANAS_OWN = ("id", "version")


@dataclass(frozen=True, slots=True)
class Change:
    """What was done about one dashboard; ``diff`` is from what Grafana has to what we have."""

    uid: str
    action: Literal["created", "unchanged", "overwritten", "would create", "would overwrite", "differs"]
    diff: str = ""


def push(
    grafana: Grafana, dashboards: Sequence[Dashboard], folder: tuple[str, str], *, overwrite: bool, dry_run: bool
) -> Iterator[Change]:
    """Create what is missing; overwrite what differs only where ``overwrite`` says so.

    ``folder`` is uid and title; it is made where it is missing. EnvironmentFailed where Grafana refuses.
    """
    try:
        if not dry_run and grafana.folder(folder[0]) is None:
            grafana.create_folder(*folder)
        for dashboard in dashboards:
            yield _one(grafana, as_document(dashboard), folder[0], overwrite, dry_run)
    except Refused as refused:
        if refused.status == _CHANGED_MEANWHILE:
            raise EnvironmentFailed(
                f"somebody else changed a dashboard meanwhile ({refused}); run it again."
            ) from refused
        raise EnvironmentFailed(f"{grafana.url} refuses ({refused.status}): {refused}.") from refused


def _one(grafana: Grafana, ours: dict[str, Any], folder: str, overwrite: bool, dry_run: bool) -> Change:
    uid = ours["uid"]
    found = grafana.dashboard(uid)
    if found is None:
        if dry_run:
            return Change(uid, "would create")
        grafana.save_dashboard(ours, folder, "hitcurve dashboards push")
        return Change(uid, "created")
    theirs = found["dashboard"]
    diff = _diff(theirs, ours)
    if not diff and found.get("meta", {}).get("folderUid", folder) == folder:
        return Change(uid, "unchanged")
    if dry_run:
        return Change(uid, "would overwrite", diff)
    if not overwrite:
        return Change(uid, "differs", diff)
    grafana.save_dashboard({**ours, "version": theirs["version"]}, folder, "hitcurve dashboards push")
    return Change(uid, "overwritten", diff)


def _diff(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    names = ("in Grafana", "to be pushed")
    return "\n".join(difflib.unified_diff(_lines(theirs), _lines(ours), *names, lineterm="", n=1))


def _lines(document: Mapping[str, Any]) -> list[str]:
    kept = {key: value for key, value in document.items() if key not in _GRAFANAS_OWN}
    return json.dumps(kept, indent=1, sort_keys=True).splitlines()
