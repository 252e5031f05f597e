"""Takes pictures of the built dashboards, with the answers of a Prometheus; README.md says how they are drawn.

``python dashboards/preview/take.py --prometheus URL --out FOLDER`` writes one PNG for each dashboard and theme.
Exit code 2 where the preview is not built or a program is missing, 3 where Prometheus does not answer.
"""

import argparse
import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DASHBOARDS = HERE.parent / "grafana" / "dashboards"
DIST = HERE / "dist"
POINTS = 240
CELL = 38
HEAD = 70
LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
SETTLE_MS = 6000
DEADLINE_S = 90.0


class Prometheus:
    """Range and instant queries over one stretch of time."""

    def __init__(self, url: str, minutes: float, at_s: float | None = None) -> None:
        self.url = url.rstrip("/")
        self.to_s = time.time() if at_s is None else at_s
        self.from_s = self.to_s - 60 * minutes
        self.step_s = max((self.to_s - self.from_s) / POINTS, 1.0)

    def step_of(self, at_s: float) -> int:
        """The number of the step at this time."""
        return round((at_s - self.from_s) / self.step_s)

    def range(self, expr: str) -> list[dict[str, Any]]:
        """Series with ``values``: pairs of Unix seconds and text."""
        return self._ask("query_range", query=expr, start=self.from_s, end=self.to_s, step=self.step_s)

    def instant(self, expr: str) -> list[dict[str, Any]]:
        """Series with ``value``."""
        return self._ask("query", query=expr, time=self.to_s)

    def _ask(self, endpoint: str, **parameters: Any) -> list[dict[str, Any]]:
        body = urllib.parse.urlencode(parameters).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{endpoint}", data=body, timeout=30) as answer:
                result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        except (OSError, ValueError, KeyError) as error:
            print(f"take.py: {self.url} does not answer {endpoint}: {error}; check --prometheus.", file=sys.stderr)
            raise SystemExit(3) from error
        return result


def recorded(
    document: Mapping[str, Any], prometheus: Prometheus, chosen: Mapping[str, str], run: Path | None
) -> dict[str, Any]:
    """A dashboard with the answers to its queries, rows opened, in the order of its panels.

    The events that Grafana would list are those of the chaos run folder ``run``.
    """
    values = {one["name"]: one.get("allValue", "") for one in document["templating"]["list"]} | dict(chosen)
    values["__rate_interval"] = f"{max(4 * prometheus.step_s, 20):.0f}s"
    panels = list(opened(document["panels"]))
    answers = {}
    for panel in panels:
        targets = [one for one in panel.get("targets", ()) if "expr" in one]
        answers[panel["id"]] = [row for target in targets for row in series(panel, target, values, prometheus)]
        if panel["type"] == "annolist" and run is not None:
            answers[panel["id"]] = [events(run)]
    return {
        "title": document["title"],
        "from_ms": 1000 * prometheus.from_s,
        "to_ms": 1000 * prometheus.to_s,
        "panels": panels,
        "answers": answers,
    }


def opened(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All panels, those of collapsed rows below them; what comes after moves down."""
    moved = 0
    for panel in panels:
        place = dict(panel["gridPos"], y=panel["gridPos"]["y"] + moved)
        yield dict(panel, gridPos=place)
        inner = panel.get("panels", [])
        if inner:
            top = min(one["gridPos"]["y"] for one in inner)
            for one in inner:
                yield dict(one, gridPos=dict(one["gridPos"], y=place["y"] + 1 + one["gridPos"]["y"] - top))
            moved += max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in inner) - top


def series(
    panel: Mapping[str, Any], target: Mapping[str, Any], values: Mapping[str, str], prometheus: Prometheus
) -> Iterator[dict[str, Any]]:
    """What the page draws: named series with a value (or null) for every step, or one table."""
    expr = VARIABLE.sub(lambda found: values.get(found[1], found[0]), target["expr"])
    if panel["type"] == "table":
        rows = prometheus.instant(expr)
        if rows:
            yield table(panel, rows)
        return
    if target["instant"]:
        for one in prometheus.instant(expr):
            at_s, value = one["value"]
            yield {"name": legend(target, one["metric"]), "times": [1000 * at_s], "values": [number(value)]}
        return
    steps = [prometheus.from_s + at * prometheus.step_s for at in range(POINTS + 1)]
    for one in prometheus.range(expr):
        known = {
            round((at_s - prometheus.from_s) / prometheus.step_s): number(value) for at_s, value in one["values"]
        }
        yield {
            "name": legend(target, one["metric"]),
            "times": [1000 * at_s for at_s in steps],
            "values": [known.get(at) for at in range(len(steps))],
        }


def events(run: Path) -> dict[str, Any]:
    """What ``hitcurve dashboards annotate`` would have marked, the latest first."""
    rows = [
        [
            f"{one['title']}: {one['verdict']}. {one['seen']}",
            f"verdict:{one['verdict']}",
            time.strftime("%H:%M:%S", time.gmtime(one["fault_from_s"])),
        ]
        for one in json.loads((run / "verdicts.json").read_text(encoding="utf-8"))
        if one["fault_from_s"] is not None
    ]
    return {"columns": ["fault", "tag", "time"], "rows": rows[::-1]}


def table(panel: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Labels and value as columns, less what the panel's transformations hide."""
    columns = [*sorted({label for row in rows for label in row["metric"]}), "Value"]
    names = {column: column for column in columns}
    for one in panel.get("transformations", ()):
        options = one["options"]
        if one["id"] == "filterFieldsByName":
            columns = [name for name in options["include"]["names"] if name in columns]
        elif one["id"] == "organize":
            columns = [column for column in columns if not options["excludeByName"].get(column)]
            columns.sort(key=lambda column, places=options["indexByName"]: places.get(column, len(places)))
            names |= options["renameByName"]
    values = [{**row["metric"], "Value": number(row["value"][1])} for row in rows]
    units = {
        one["matcher"]["options"]: setting["value"]
        for one in panel["fieldConfig"]["overrides"]
        for setting in one["properties"]
        if setting["id"] == "unit"
    }
    return {
        "columns": [names[column] for column in columns],
        "rows": [
            [cell(value.get(column, ""), units.get(names[column])) for column in columns] for value in values
        ],
    }


def cell(value: Any, unit: str | None) -> Any:
    """A value as Grafana writes it; text that is no number of bytes has no value there."""
    if unit != "bytes":
        return value
    return f"{int(value) / 2**30:.3g} GiB" if str(value).isdigit() else "–"


def legend(target: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """The series' name by the legend's template."""
    if target["legendFormat"] == "__auto":
        return ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) or "value"
    return LEGEND.sub(lambda found: labels.get(found[1], ""), target["legendFormat"]).strip()


def number(text: str) -> float | None:
    """JSON has no NaN."""
    value = float(text)
    return value if value == value and abs(value) != float("inf") else None


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder on a port of its own; a page of modules does not open from a file."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def picture(chromium: str, url: str, width: int, height: int, file: Path) -> None:
    """One picture of a page; none is left where Chromium fails."""
    with tempfile.TemporaryDirectory() as profile:
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={file}"]
        command += [f"--virtual-time-budget={SETTLE_MS}", url]
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)
    with suppress(ImportError):
        from PIL import Image

        # A third as large of 256 colours; chosen by coverage, since the rare ones are those that mean something.
        with Image.open(file) as taken:
            smaller = taken.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
        smaller.save(file, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--minutes", type=float, default=10.0, help="how far back (default 10)")
    parser.add_argument("--at", type=float, metavar="UNIX", help="until when, in seconds (default: now)")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--dashboard", action="append", metavar="UID", help="only this one; may be repeated")
    parser.add_argument("--theme", action="append", choices=("light", "dark"), help="default: both")
    parser.add_argument(
        "--var", action="append", default=[], metavar="NAME=VALUE", help="choose a variable's value"
    )
    parser.add_argument("--run", type=Path, metavar="DIR", help="chaos run whose faults Grafana would list")
    parser.add_argument("--width", type=int, default=1500)
    asked = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        parser.error("no chromium is installed; on Debian it is the package chromium")
    if not (DIST / "index.html").is_file():
        parser.error("the preview is not built; see README.md beside this file")
    prometheus = Prometheus(asked.prometheus, asked.minutes, asked.at)
    asked.out.mkdir(parents=True, exist_ok=True)
    chosen = dict(one.split("=", 1) for one in asked.var)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "site"
        shutil.copytree(DIST, folder)
        with served(folder) as url:
            for path in sorted(DASHBOARDS.glob("*.json")):
                if asked.dashboard and path.stem not in asked.dashboard:
                    continue
                document = recorded(json.loads(path.read_text(encoding="utf-8")), prometheus, chosen, asked.run)
                (folder / "recorded.json").write_text(json.dumps(document), encoding="utf-8")
                bottom = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in document["panels"])
                for theme in asked.theme or ("light", "dark"):
                    file = asked.out / f"{path.stem}-{theme}.png"
                    page = f"{url}/index.html?theme={theme}&recorded=recorded.json"
                    picture(chromium, page, asked.width, bottom * CELL + HEAD, file)
                    print(file)


if __name__ == "__main__":
    main()
