"""A real vLLM 0.32 with one planted defect each, judged by the drills.

``python tests/real_vllm/mutants/run.py [MUTANT…] [--healthy]`` starts one server per mutant (``make vllm-env``),
runs the drills below, and prints which catch it. ``--healthy`` first judges a server without a defect. With all
mutants it writes ``docs/mutants_vllm.json``. Exit code 1 where a mutant is caught by nothing, or the healthy
server by anything.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from hitcurve_chaos.demo.engines import start_vllm

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
SCENARIOS = (
    "counters-honest",
    "short-prefixes",
    "tenants-must-not-share",
    "unique-flood",
    "adapter-reload",
    "reset-idle",
    "abort-storm",
    "preemption-storm",
    "eviction-order",
)
BLOCK_SIZE = 32
POOL_BLOCKS = 160
RUN_S = 900.0


def run(mutant: str, folder: Path) -> dict[str, str]:
    """Verdict of each scenario on a server with this defect ("" for none)."""
    folder.mkdir(parents=True)
    engine = start_vllm(
        folder / "vllm.log",
        block_size=BLOCK_SIZE,
        pool_blocks=POOL_BLOCKS,
        seed=0,
        variables={"PYTHONPATH": str(HERE), "HITCURVE_MUTANT": mutant},
    )
    try:
        adapters = [{"name": name, "path": path} for name, path in engine.adapters]
        target = {"name": "vllm", "engine": engine.url, "model": engine.model, "adapters": adapters}
        (folder / "targets.yaml").write_text(yaml.safe_dump({"targets": [target]}))
        command = [sys.executable, "-m", "hitcurve", "chaos", "run", *SCENARIOS, "--seed", "1", "--json"]
        command += ["--targets", str(folder / "targets.yaml"), "--out", str(folder / "run")]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S)
    finally:
        engine.process.stop()
    try:
        verdicts: Any = json.loads(ended.stdout)
    except ValueError:
        raise SystemExit(f"run.py: {mutant or 'healthy'}: no verdicts: {ended.stderr.strip()[-400:]}") from None
    rows = verdicts["verdicts"] if isinstance(verdicts, dict) else verdicts
    return {row["scenario"]: row["verdict"] for row in rows}


def judged(mutant: str, out: Path) -> list[str]:
    """Scenarios that found the server bad; says so."""
    started = time.monotonic()
    verdicts = run(mutant, out / (mutant or "healthy"))
    bad = [name for name in SCENARIOS if verdicts.get(name) == "bad"]
    others = ", ".join(f"{name} {verdict}" for name, verdict in verdicts.items() if verdict not in ("ok", "bad"))
    told = f"{mutant or 'healthy'}: bad: {', '.join(bad) or 'nothing'}" + (f"; {others}" if others else "")
    print(f"{told} ({time.monotonic() - started:.0f} s)", flush=True)
    return bad


def main() -> None:
    sys.path.insert(0, str(HERE))
    from hitcurve_mutants import DEFECTS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help="only these")
    parser.add_argument("--healthy", action="store_true", help="first a server without a defect")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep the run folders here")
    asked = parser.parse_args()
    unknown = set(asked.mutants) - DEFECTS.keys()
    if unknown:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}; there are {', '.join(DEFECTS)}")
    with tempfile.TemporaryDirectory() as temporary:
        out = asked.out or Path(temporary)
        alarms = judged("", out) if asked.healthy else []
        caught = {mutant: judged(mutant, out) for mutant in asked.mutants or DEFECTS}
    missed = [mutant for mutant, scenarios in caught.items() if not scenarios]
    if not asked.mutants and not missed and not alarms:
        document = json.dumps({"vllm": "0.32.0", "mutants": caught}, indent=1) + "\n"
        temporary_file = REPOSITORY / "docs" / "mutants_vllm.new"
        temporary_file.write_text(document, encoding="utf-8")
        temporary_file.replace(REPOSITORY / "docs" / "mutants_vllm.json")
    print(f"{len(caught) - len(missed)} of {len(caught)} mutants caught, {len(alarms)} false alarms")
    raise SystemExit(1 if missed or alarms else 0)


if __name__ == "__main__":
    main()
