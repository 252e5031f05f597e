"""Engines with one planted defect each, judged by the drills: which scenario catches which mutant?

``python tests/mutants/run.py [MUTANT…] [--healthy N] [--out FOLDER]`` starts two simulated engines per mutant,
runs the drills of the suite ``nightly`` that need no container and no load of minutes, and prints which scenarios
catch it. ``--healthy N`` first runs the same on healthy engines with N seeds, of which none may fail. With all
mutants it writes ``docs/mutants.json`` and ``docs/mutants.md``. Exit code 1 where a mutant is caught by nothing,
or a healthy engine by anything.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from hitcurve.child import ChildProcess

REPOSITORY = Path(__file__).resolve().parents[2]
HITCURVE = (sys.executable, "-m", "hitcurve")
SCENARIOS = (
    "counters-honest",
    "short-prefixes",
    "tenants-must-not-share",
    "images-must-not-share",
    "salt-storm",
    "cold-stampede",
    "prompt-logprobs-storm",
    "traffic-shift",
    "unique-flood",
    "adapter-reload",
    "adapter-scatter",
    "cold-start",
    "reset-idle",
    "reset-busy",
    "one-replica-reset",
    "hash-seed-disagreement",
    "abort-storm",
    "preemption-storm",
    "shared-prefix-outlives",
    "eviction-order",
)
"""Those of nightly that judge the engine by its own answers and counters, in seconds."""
OPTIONS = ("--patched", "--speed", "8", "--pool-blocks", "300", "--max-model-len", "4096")
LISTEN_S = 60.0
RUN_S = 600.0
CAUGHT = "bad"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def two_engines(fault: str, needs_peer: bool, folder: Path) -> Iterator[list[str]]:
    """Addresses of two engines with the same defect, or healthy ones."""
    ports = [free_port(), free_port()]
    addresses = [f"http://127.0.0.1:{port}" for port in ports]
    with ExitStack() as running:
        engines = []
        for number, port in enumerate(ports):
            command = [*HITCURVE, "engine", "--port", str(port), *OPTIONS]
            command += ["--fault", fault] if fault else []
            command += ["--fault-peer", addresses[1 - number]] if needs_peer else []
            engines.append(ChildProcess(f"engine-{number}", command, folder / f"engine-{number}.log").start())
            running.callback(engines[-1].stop)
        for engine in engines:
            engine.wait_listening(LISTEN_S)
        yield addresses


def run(fault: str, needs_peer: bool, seed: int, folder: Path) -> dict[str, str]:
    """Verdict of each scenario, or ``skipped``, on two engines with this defect."""
    folder.mkdir(parents=True)
    with two_engines(fault, needs_peer, folder) as addresses:
        adapters = [{"name": name, "path": f"/adapters/{name}"} for name in ("one", "two")]
        common = {"model": "simulated", "adapters": adapters}
        targets = [
            {"name": "first", "engine": addresses[0], "replicas": ["second"], **common},
            {"name": "second", "engine": addresses[1], **common},
        ]
        (folder / "targets.yaml").write_text(yaml.safe_dump({"targets": targets}))
        command = [*HITCURVE, "chaos", "run", *SCENARIOS, "--targets", str(folder / "targets.yaml")]
        command += ["--target", "first", "--seed", str(seed), "--out", str(folder / "run"), "--json"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, env=os.environ)
    try:
        verdicts = json.loads(ended.stdout)
    except ValueError:
        raise SystemExit(f"run.py: {fault or 'healthy'}: no verdicts: {ended.stderr.strip()[-400:]}") from None
    return {one["scenario"]: one["verdict"] for one in _rows(verdicts)}


def _rows(verdicts: Any) -> list[Mapping[str, Any]]:
    return list(verdicts["verdicts"] if isinstance(verdicts, dict) else verdicts)


def judge_healthy(seeds: int, out: Path) -> list[str]:
    """What was not ok on healthy engines, which must be nothing."""
    alarms = []
    for seed in range(1, seeds + 1):
        started = time.monotonic()
        found = run("", False, seed, out / f"healthy-{seed}")
        wrong = {name: verdict for name, verdict in found.items() if verdict not in ("ok", "skipped")}
        alarms += [f"healthy, seed {seed}: {name} is {verdict}" for name, verdict in wrong.items()]
        print(f"healthy, seed {seed}: {len(wrong)} false alarms, {time.monotonic() - started:.0f} s", flush=True)
    return alarms


def judge_mutants(faults: Sequence[Mapping[str, Any]], out: Path) -> dict[str, dict[str, str]]:
    """Verdicts by mutant and scenario."""
    matrix = {}
    for fault in faults:
        started = time.monotonic()
        matrix[fault["name"]] = run(fault["name"], fault["needs_peer"], 1, out / fault["name"])
        caught = ", ".join(catchers(matrix[fault["name"]])) or "NOTHING"
        print(f"{fault['name']}: caught by {caught} ({time.monotonic() - started:.0f} s)", flush=True)
    return matrix


def catchers(verdicts: Mapping[str, str]) -> list[str]:
    """Scenarios that found the engine bad."""
    return [name for name in SCENARIOS if verdicts.get(name) == CAUGHT]


def known_faults() -> list[dict[str, Any]]:
    """Every defect of ``hitcurve engine --list-faults``."""
    from hitcurve_simulator.server.faults import FAULTS

    return [{"name": one.name, "defect": one.defect, "needs_peer": one.needs_peer} for one in FAULTS.values()]


def write(matrix: Mapping[str, Mapping[str, str]], faults: Sequence[Mapping[str, Any]], healthy: int) -> None:
    """``docs/mutants.json`` and the table for people."""
    document = {"healthy_runs": healthy, "mutants": {name: catchers(row) for name, row in matrix.items()}}
    _replace(REPOSITORY / "docs" / "mutants.json", json.dumps(document, indent=1) + "\n")
    lines = [
        "# Mutants",
        "",
        "Can the drills fail? Each mutant is a simulated engine with one planted defect (`hitcurve engine --fault",
        "NAME`). A scenario catches it where its verdict is `bad`. Written by `make mutants`,",
        f"which also ran the drills on healthy engines with {healthy} seeds: no false alarm.",
        "",
        "| mutant | defect | caught by |",
        "|---|---|---|",
    ]
    for fault in faults:
        caught = ", ".join(f"[{name}](scenarios/{name}.md)" for name in catchers(matrix[fault["name"]]))
        lines.append(f"| `{fault['name']}` | {fault['defect']} | {caught} |")
    _replace(REPOSITORY / "docs" / "mutants.md", "\n".join([*lines, ""]))


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help="only these")
    parser.add_argument("--healthy", type=int, default=20, metavar="N", help="seeds on healthy engines (20)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep the run folders here")
    asked = parser.parse_args()
    faults = known_faults()
    chosen = [one for one in faults if not asked.mutants or one["name"] in asked.mutants]
    unknown = set(asked.mutants) - {one["name"] for one in faults}
    if unknown:
        parser.error(
            f"there is no mutant {', '.join(sorted(unknown))}; there are {', '.join(f['name'] for f in faults)}"
        )
    with tempfile.TemporaryDirectory() as temporary:
        out = asked.out or Path(temporary)
        alarms = judge_healthy(asked.healthy, out)
        matrix = judge_mutants(chosen, out)
    missed = [name for name, row in matrix.items() if not catchers(row)]
    if not asked.mutants and not missed and not alarms:
        write(matrix, faults, asked.healthy)
    for problem in [*alarms, *(f"{name} is caught by nothing" for name in missed)]:
        print(problem, file=sys.stderr)
    print(f"{len(matrix) - len(missed)} of {len(matrix)} mutants caught, {len(alarms)} false alarms")
    raise SystemExit(1 if missed or alarms else 0)


if __name__ == "__main__":
    main()
