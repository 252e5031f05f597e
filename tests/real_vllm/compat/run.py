"""``make compat``: the recipe scenario with and without the engine patch, on every vLLM release from 0.8.5 on.

``python tests/real_vllm/compat/run.py [VERSION …] [--json] [--write-docs]``. Each release runs in a process of its
own, in the environment of the real vLLM (``make vllm-env``) with the release's Python files in front
(``release_trees.py`` fetches them once). ``installed`` as a version means the vLLM of that environment, and needs
nothing fetched. Exit code 1 where a release differs from what is expected. ``--write-docs`` rewrites the table in
docs/engines.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expected import COUNTERS, LEDGER, MANAGER, counters_of
from release_trees import VERSIONS, fetch, packages_for, trees_folder

REPOSITORY = Path(__file__).resolve().parents[3]
PYTHON = Path(os.environ.get("HITCURVE_VLLM_PYTHON", REPOSITORY / ".venv-vllm" / "bin" / "python"))
SCENARIO = Path(__file__).with_name("scenario.py")
DOCS = REPOSITORY / "docs" / "engines.md"
BEGIN, END = "<!-- make compat: begin -->", "<!-- make compat: end -->"
MOST_SECONDS = 180


@dataclass
class Result:
    """What one release showed; ``problems`` is empty where all is as expected."""

    version: str
    way: str
    counters: str = ""
    hooks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def check(version: str, scratch: Path) -> Result:
    way = "scheduler-cls" if version == "0.8.5" else "plugin"
    result = Result(version, way)
    try:
        plain = play(version, "unpatched", way, scratch)
        patched = play(version, "patched", way, scratch)
    except (RuntimeError, subprocess.SubprocessError) as error:
        result.problems.append(str(error))
        return result
    result.hooks = patched["hooks"]
    if plain["answers"] != patched["answers"]:
        result.problems.append("the manager answers differently with the patch")
    compare(result, "manager", MANAGER, plain["answers"])
    compare(result, "ledger", LEDGER, patched["ledger"])
    if patched["ledger"]["evicted_blocks"] != plain["answers"]["evicted"]:
        result.problems.append("the ledger's evictions are not the pool's")
    if patched["other_objects"]:
        result.problems.append(f"another object was returned by {patched['other_objects']}")
    result.counters = counters_of(plain["answers"]["counters"])
    if result.counters not in COUNTERS:
        result.problems.append(f"vLLM's own counters read {plain['answers']['counters']}")
    return result


def compare(result: Result, what: str, expected: dict[str, Any], seen: dict[str, Any]) -> None:
    for name, value in expected.items():
        if seen[name] != value:
            result.problems.append(f"{what}: {name} is {seen[name]}, not {value}")


def play(version: str, kind: str, way: str, scratch: Path) -> dict[str, Any]:
    """Run the scenario; what it printed. Raises RuntimeError where it ends with an error."""
    search_path = [scratch, SCENARIO.parent]
    if version != "installed":
        search_path = [fetch(version, trees_folder(REPOSITORY)), *packages_for(version, REPOSITORY), *search_path]
    done = subprocess.run(
        [str(PYTHON), str(SCENARIO), kind, way],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, search_path)),
            "VLLM_USE_V1": "1",
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "PYTHONWARNINGS": "ignore",
        },
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise RuntimeError(
            f"{kind}: {(done.stderr.strip() or done.stdout.strip() or 'no output').splitlines()[-1]}"
        )
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def expose_plugin(folder: Path) -> None:
    """What an installed hitcurve would put on the path: the packages and their entry point."""
    (folder / "hitcurve_engine").symlink_to(REPOSITORY / "engine_patch" / "hitcurve_engine")
    (folder / "hitcurve").symlink_to(REPOSITORY / "hitcurve")
    info = folder / "hitcurve-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hitcurve\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nhitcurve = hitcurve_engine.plugin:register\n")


def table(results: list[Result]) -> str:
    rows = [
        "| vLLM | loaded by | hooks | result | vLLM's own lookup counters, against the ledger's |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        verdict = "as expected" if not result.problems else "; ".join(result.problems)
        counters = COUNTERS.get(result.counters, result.counters)
        rows.append(f"| {result.version} | {result.way} | {len(result.hooks)} | {verdict} | {counters} |")
    return "\n".join(rows)


def write_docs(text: str) -> None:
    page = DOCS.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCS.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--write-docs", action="store_true", help="rewrite the table in docs/engines.md")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        expose_plugin(Path(scratch))
        for version in arguments.versions:
            results.append(check(version, Path(scratch)))
            print(version, results[-1].problems or "as expected", file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps([vars(result) for result in results]))
    else:
        print(table(results))
    if arguments.write_docs:
        write_docs(table(results))
    return 1 if any(result.problems for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
