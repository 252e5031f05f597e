"""Plays the same operations on our rules and on an engine's own cache, and counts what differs.

``python tests/real_vllm/oracles/run.py [ORACLE…] --sequences N [--first-seed S] [--no-workloads]`` prints one JSON
line per oracle: what was compared and the mismatches, of which none is allowed. Without names it runs all oracles
that are installed (``make oracles``). Exit code 1 where anything differs.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from driver import Driver
from oracle_list import ORACLES, REPOSITORY, Oracle

MOST_SHOWN = 5


def compare(oracle: Oracle, driver: Driver, sequences: int, first_seed: int, workloads: bool) -> dict[str, Any]:
    """Counts of one oracle, and the first operation that differs of some of the runs that do."""
    counts: Counter[str] = Counter()
    mismatches: list[str] = []
    runs = chain(oracle.workloads(first_seed) if workloads else (), oracle.random(first_seed, sequences))
    started = time.monotonic()
    for run, answers in driver.answers(runs):
        counts["workloads" if run["name"].startswith("workload") else "sequences"] += 1
        count(counts, run)
        if answers != run["expected"]:
            mismatches.append(first_difference(run, answers))
    return {
        "oracle": oracle.name,
        "mismatches": len(mismatches),
        "first_mismatches": mismatches[:MOST_SHOWN],
        "counts": dict(sorted(counts.items())),
        "seconds": round(time.monotonic() - started, 1),
    }


@contextmanager
def driver_of(oracle: Oracle, python: Path) -> Iterator[Driver]:
    """The program of an oracle, running and quiet."""
    program = Path(__file__).with_name(oracle.program)
    quiet = {"VLLM_CONFIGURE_LOGGING": "0", "CUDA_VISIBLE_DEVICES": ""}
    with Driver(python, program, oracle.python_path, **quiet) as driver:
        yield driver


def count(counts: Counter[str], run: dict[str, Any]) -> None:
    """Add what a run reached, by our answers."""
    starts = {"start", "again", "admit"}
    for operation, answer in zip(run["operations"], run["expected"], strict=False):
        name, result = operation[0], answer[0]
        counts["operations"] += 1
        counts["evicted blocks"] += len(answer[run.get("evicted_at", 1)])
        if name in starts:
            counts["requests refused" if result is None else "requests admitted"] += 1
            counts["requests with hits"] += bool(result)
            counts["resumed with hits"] += name == "again" and bool(result)
        elif name == "reset":
            counts["resets" if result else "resets refused"] += 1
        elif name in ("compute", "grow"):
            counts["chunks and decoded tokens" if result else "chunks refused"] += 1
        elif name in ("retract", "preempt", "abort"):
            counts[name] += 1
    for feature in run.get("features", ()):
        counts[feature] += 1


def first_difference(run: dict[str, Any], answers: list[Any]) -> str:
    """Where a run first differs."""
    for number, (ours, theirs) in enumerate(zip(run["expected"], answers, strict=False)):
        if ours != theirs:
            operation = run["operations"][number] if number < len(run["operations"]) else ["end"]
            return f"{run['name']}, operation {number} {operation}: ours {ours}, theirs {theirs}"
    return f"{run['name']}: {len(run['expected'])} answers of ours, {len(answers)} of theirs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("oracles", nargs="*", metavar="ORACLE", help=f"of {', '.join(ORACLES)}")
    parser.add_argument("--sequences", type=int, default=200, help="random sequences per oracle")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--no-workloads", action="store_true", help="leave workloads A to F out")
    options = parser.parse_args()
    unknown = [name for name in options.oracles if name not in ORACLES]
    if unknown:
        parser.error(f"there is no oracle {unknown[0]}; there are {', '.join(ORACLES)}")
    python = Path(os.environ.get("HITCURVE_VLLM_PYTHON", REPOSITORY / ".venv-vllm" / "bin" / "python"))
    differs = False
    named = [ORACLES[name] for name in options.oracles] or list(ORACLES.values())
    # Oracles of one program share a process: its imports take longer than many sequences.
    for _, group in groupby(named, key=lambda oracle: (oracle.program, oracle.python_path)):
        oracles = list(group)
        if (missing := oracles[0].missing) is not None:
            for oracle in oracles:
                print(json.dumps({"oracle": oracle.name, "skipped": f"{missing} is not there: run make oracles"}))
            continue
        with driver_of(oracles[0], python) as driver:
            for oracle in oracles:
                settings = (options.sequences, options.first_seed, not options.no_workloads)
                result = compare(oracle, driver, *settings)
                print(json.dumps(result), flush=True)
                differs = differs or bool(result["mismatches"])
    sys.exit(differs)


if __name__ == "__main__":
    main()
