"""Every profile beside its ceiling: ``python tests/benchmarks/load_profile_ceilings.py [PROFILE ...]``.

Each profile's requests are written down as a trace, ``hitcurve estimate`` gives the ceiling of that trace once the
profile's warm-up is over, and ``hitcurve load`` sends the same requests to a simulated engine that never evicts.
The last run is in docs/benchmarks.md. Exit code 1: a profile is more than half a point away.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from hitcurve.child import ChildProcess
from hitcurve_loadtests.plan import LoadOptions, plan_load
from hitcurve_loadtests.planned_trace import write_planned_trace
from hitcurve_loadtests.profiles.catalogue import find_profile, profile_names
from hitcurve_simulator.estimate.answer import answer
from hitcurve_simulator.estimate.estimate import Estimator
from hitcurve_simulator.estimate.question import Question
from hitcurve_simulator.estimate.traffic import Reading, load_traffic
from hitcurve_simulator.traces.tokenizers import tokenizer_by_name

HALF_A_POINT = 0.005
USERS = 4
ADAPTERS = ("ada", "bob", "cyd", "dee")
FIRST_SEED = 2000


def load(*words: object) -> dict[str, Any]:
    """The summary of a load."""
    command = [sys.executable, "-m", "hitcurve", "load", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"hitcurve load {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr.strip()}")
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def estimated_ceiling(trace: Path, warm_up: float) -> float:
    """What ``hitcurve estimate TRACE --tokenizer bytes --outputs --warm-up SHARE --json`` has for its ceiling."""
    traffic = load_traffic(
        [str(trace)], Reading(block_size=16, tokenizer=tokenizer_by_name("bytes")), lambda *_: None
    )
    rate: float = answer(Estimator(traffic, True, warm_up), Question(pools=()))["ceiling"]["engine_like"]["token"]
    return rate


def load_adapters(url: str) -> None:
    for name in ADAPTERS:
        body = json.dumps({"lora_name": name, "lora_path": "simulated"}).encode()
        request = urllib.request.Request(f"{url}/v1/load_lora_adapter", body)
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request, timeout=10).close()


def ceiling_and_measured(name: str, url: str, folder: Path) -> tuple[float, float]:
    """Hit rates of the requests after the profile's warm-up: as estimated, as clients of the engine were told."""
    spec = find_profile(name)
    expected = spec.expected
    assert expected is not None
    # Of its own, since profiles of one kind and one seed share their texts.
    seed = FIRST_SEED + profile_names().index(name)
    trace = folder / f"{name}.jsonl"
    write_planned_trace(
        plan_load(LoadOptions(host=url, profile=name, requests=expected.requests, seed=seed)), trace
    )
    # Of several users, whose chat gets its turn depends on the moment, and with it which turns are warm-up. Their
    # first requests may all be cold, so these have to be warm-up.
    users = 1 if spec.kind == "multi-turn" or expected.warm_up < USERS else USERS
    models = [word for adapter in ADAPTERS for word in ("--model", adapter)] if spec.adapters else []
    summary = load(
        *(name, "--host", url, "--users", users, "--requests", expected.requests, "--seed", seed),
        *("--warm-up", expected.warm_up, "--max-lag", 60, *models),
    )
    return estimated_ceiling(trace, expected.warm_up / expected.requests), summary["warm"]["hit_rate"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", nargs="*", metavar="PROFILE", help="these profiles only")
    names = parser.parse_args().profiles or profile_names()
    command = [sys.executable, "-m", "hitcurve", "engine", "--port", "0", "--pool-blocks", "200000"]
    far = []
    print("| profile | ceiling | measured | difference, points |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        words = ["--speed", "200", "--max-model-len", "32768"]
        with ChildProcess("engine", [*command, *words], Path(folder) / "engine.log") as engine:
            url = engine.wait_listening(30)
            load_adapters(url)
            for name in names:
                ceiling, measured = ceiling_and_measured(name, url, Path(folder))
                off = measured - ceiling
                print(f"| `{name}` | {ceiling:.2%} | {measured:.2%} | {100 * off:+.2f} |", flush=True)
                if abs(off) > HALF_A_POINT:
                    far.append(name)
    print(f"{len(names) - len(far)} of {len(names)} profiles within half a point of their ceiling")
    if far:
        sys.exit(f"not within half a point: {', '.join(far)}")


if __name__ == "__main__":
    main()
