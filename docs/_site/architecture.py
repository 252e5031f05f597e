"""The architecture page: its picture is drawn from what the packages really import."""

import ast
from pathlib import Path

__all__ = ["architecture_page", "imports_between"]

PACKAGES = {
    "hitcurve": ("hitcurve", "shared language, command line"),
    "hitcurve_engine": ("engine_patch/hitcurve_engine", "the vLLM plugin"),
    "hitcurve_exporter": ("exporter/hitcurve_exporter", "scrapes, windows, states"),
    "hitcurve_loadtests": ("loadtests/hitcurve_loadtests", "Locust users, profiles"),
    "hitcurve_dashboards": ("dashboards/hitcurve_dashboards", "Grafana, rules"),
    "hitcurve_simulator": ("simulator/hitcurve_simulator", "cache rules, estimator"),
    "hitcurve_chaos": ("chaos/hitcurve_chaos", "drills, verdicts, report"),
}
WIDTH, HEIGHT, GAP = 190, 56, 30
_PAGE = """# Architecture

Every top-level folder is a component: its package and whatever is deployed with it. Lines are imports, read from
the sources when this page was built; a test holds them to one direction.

{picture}

| component | imports |
|---|---|
{rows}

One record runs through all of it: `EngineSample` (`hitcurve/sample.py`), one reading of one engine at one moment.
The exporter makes them live, `replay` from recordings, `watch` in a terminal; `hitcurve/monitor` turns them into a
`Reading` (`hitcurve/reading.py`) with windows and the state of the curve, which chaos judges, dashboards plot and
the report draws. The other shared record is the ledger's outcome of a request
(`engine_patch/hitcurve_engine/ledger`), which the plugin and the simulator both write.
"""


def imports_between(root: Path) -> dict[str, set[str]]:
    """Which of our packages each of our packages imports."""
    found: dict[str, set[str]] = {}
    for package, (folder, _) in PACKAGES.items():
        names: set[str] = set()
        for source in (root / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    names.add(node.module.partition(".")[0])
        found[package] = (names & PACKAGES.keys()) - {package}
    return found


def architecture_page(root: Path) -> str:
    """The page, with the picture as inline SVG."""
    imports = imports_between(root)
    rows = [
        f"| `{PACKAGES[package][0]}` | {', '.join(f'`{one}`' for one in sorted(used)) or 'nothing of ours'} |"
        for package, used in imports.items()
    ]
    return _PAGE.format(picture=_picture(imports), rows="\n".join(rows))


def _levels(imports: dict[str, set[str]]) -> list[list[str]]:
    """Packages by the length of the longest way down."""

    def depth(package: str) -> int:
        return max((1 + depth(used) for used in imports[package]), default=0)

    rows: dict[int, list[str]] = {}
    for package in PACKAGES:
        rows.setdefault(depth(package), []).append(package)
    return [rows[level] for level in sorted(rows, reverse=True)]


def _picture(imports: dict[str, set[str]]) -> str:
    levels = _levels(imports)
    across = max(map(len, levels)) * (WIDTH + GAP)
    places = {
        package: (
            GAP / 2 + (across - len(row) * (WIDTH + GAP)) / 2 + at * (WIDTH + GAP),
            level * (HEIGHT + 60) + 10,
        )
        for level, row in enumerate(levels)
        for at, package in enumerate(row)
    }
    parts = [
        f'<svg viewBox="0 0 {across} {len(levels) * (HEIGHT + 60)}" role="img" aria-label="Packages and imports">'
    ]
    for package, used in imports.items():
        for other in sorted(used):
            (x, y), (to_x, to_y) = places[package], places[other]
            start, end = (x + WIDTH / 2, y + HEIGHT), (to_x + WIDTH / 2, to_y)
            path = f"M{start[0]},{start[1]} C{start[0]},{start[1] + 30} {end[0]},{end[1] - 30} {end[0]},{end[1]}"
            parts.append(f'<path d="{path}" fill="none" stroke="currentColor" opacity="0.4"/>')
            parts.append(f'<circle cx="{end[0]}" cy="{end[1]}" r="3" fill="currentColor" opacity="0.6"/>')
    for package, (x, y) in places.items():
        # Filled, so that lines from two levels above run behind it.
        look = 'rx="6" style="fill: var(--md-default-bg-color)" stroke="currentColor"'
        box = f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" {look}/>'
        parts += [box, _words(x, y + 24, 14, package), _words(x, y + 42, 11, PACKAGES[package][1])]
    return "\n".join([*parts, "</svg>"])


def _words(x: float, y: float, size: int, text: str) -> str:
    place = f'x="{x + WIDTH / 2}" y="{y}" text-anchor="middle"'
    return f'<text {place} fill="currentColor" font-size="{size}">{text}</text>'
