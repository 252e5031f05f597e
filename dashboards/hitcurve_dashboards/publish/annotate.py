"""Marks the faults of a chaos run on the dashboards, from the verdicts of its run folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_dashboards.publish.grafana import Grafana, Refused

__all__ = ["TAG", "annotate_run"]

TAG = "hitcurve-chaos"
"""The tag that the dashboards' annotation "Chaos" shows."""


def annotate_run(grafana: Grafana, run: Path) -> tuple[int, int]:
    """Mark every fault of the run; how many were marked now, and how many were before. See docs/run_folder.md."""
    marked = before = 0
    try:
        for verdict in _verdicts(run):
            from_ms, to_ms = round(verdict["fault_from_s"] * 1000), round(verdict["fault_to_s"] * 1000)
            tags = [TAG, verdict["scenario"], f"verdict:{verdict['verdict']}"]
            if any(found["time"] == from_ms for found in grafana.annotations(tags, from_ms, to_ms)):
                before += 1
                continue
            grafana.annotate(from_ms, to_ms, tags, f"{verdict['title']}: {verdict['verdict']}. {verdict['seen']}")
            marked += 1
    except Refused as refused:
        raise EnvironmentFailed(f"{grafana.url} refuses ({refused.status}): {refused}.") from refused
    return marked, before


def _verdicts(run: Path) -> list[Mapping[str, Any]]:
    file = run / "verdicts.json"
    try:
        verdicts = json.loads(file.read_text(encoding="utf-8"))
        return [verdict for verdict in verdicts if verdict["fault_from_s"] is not None]
    except FileNotFoundError as error:
        raise UsageError(f"{run} is no run folder: it has no verdicts.json; name a folder below runs/.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file} cannot be read: {error}; rerun the scenarios.") from error
