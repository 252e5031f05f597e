"""Requests of two loads that sent the same, paired by their place in the traffic."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_loadtests.request_lines import NoRequest, read_request_line

__all__ = ["Load", "Pair", "paired", "read_load"]

_SAME = ("profile", "seed", "api")
_REQUESTS = "requests.jsonl"
_NEEDED = frozenset(
    ("load", "group", "outcome", "ttft_s", "tpot_s", "duration_s", "prompt_tokens", "cached_tokens")
)

Request = Mapping[str, Any]
Pair = tuple[Request, Request]


@dataclass(frozen=True, slots=True)
class Load:
    """A finished load: its summary, and its requests by worker and number."""

    path: Path
    summary: Mapping[str, Any]
    requests: Mapping[tuple[int, int], Request]


def read_load(path: Path) -> Load:
    """A summary ``load-NAME.json``, or a folder that holds exactly one; UsageError where that cannot be read."""
    file = _summary_in(path) if path.is_dir() else path
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
        lines = (file.parent / _REQUESTS).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read ({error.strerror}); name a folder that 'hitcurve load --out' wrote."
        ) from error
    except ValueError as error:
        raise UsageError(f"{file}: not JSON ({error}); name a folder that 'hitcurve load --out' wrote.") from error
    if not isinstance(summary, dict) or "name" not in summary:
        raise UsageError(f"{file} is no summary of a load; name load-NAME.json or its folder.")
    requests = {}
    for number, line in enumerate(lines, start=1):
        try:
            request = read_request_line(line, f"{file.parent / _REQUESTS}:{number}", _NEEDED)
        except NoRequest as error:
            raise UsageError(str(error)) from error
        if request["load"] == summary["name"]:
            requests[request.get("worker", 0), request.get("number", 0)] = request
    return Load(file, summary, requests)


def paired(one: Load, other: Load) -> list[Pair]:
    """Requests both have answered, in the order of sending; UsageError where they did not send the same."""
    for name in _SAME:
        values = one.summary.get(name), other.summary.get(name)
        if values[0] != values[1]:
            raise UsageError(
                f"the loads differ in their {name} ({values[0]} and {values[1]}), so no request has its pair; "
                f"run both with the same profile, sizes and --seed."
            )
    pairs = [
        (request, other.requests[key])
        for key, request in sorted(one.requests.items())
        if key in other.requests and request["outcome"] == other.requests[key]["outcome"] == "ok"
    ]
    if any(one["group"] != other["group"] for one, other in pairs):
        raise UsageError(
            "the loads sent their requests in another order; run both open loop, or with --users 1, and one seed."
        )
    if not pairs:
        raise UsageError(f"{one.path} and {other.path} have no answered request in common; let them run longer.")
    return pairs


def _summary_in(folder: Path) -> Path:
    found = sorted(folder.glob("load-*.json"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise UsageError(f"{folder} must hold one load-NAME.json and has {names}; name the file.")
    return found[0]
