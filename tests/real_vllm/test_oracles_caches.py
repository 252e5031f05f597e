"""Our cache rules equal the engines' own caches, operation by operation: a bounded part of ``make oracles-full``.

Hits of each request, evicted blocks and their order, the blocks of each request, free blocks, the engine's own
counters. vLLM 0.32 is what ``make vllm-env`` installs; the others need ``make oracles``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real_vllm

REACHED = ("requests with hits", "requests refused", "resumed with hits", "resets", "resets refused")
GROUPED = (
    "null blocks held",
    "several block sizes",
    "several kinds of window",
    "runs with EAGLE",
    "one window only",
)
SGLANG = ("sglang-0.5.22-legacy", "sglang-0.5.22-python", "sglang-0.5.22-rust")


def compared(vllm_python: Path, *arguments: object) -> list[dict[str, Any]]:
    program = Path(__file__).with_name("oracles") / "run.py"
    done = subprocess.run(
        [sys.executable, program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HITCURVE_VLLM_PYTHON": str(vllm_python)},
    )
    assert done.stdout, done.stderr[-2000:]
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    if "skipped" in answers[0]:
        pytest.skip(answers[0]["skipped"])
    return answers


@pytest.mark.parametrize(
    ("oracles", "sequences", "workloads"),
    [
        (("vllm-0.32.0",), 150, 6),
        (("vllm-groups-0.32.0",), 100, 0),
        (("vllm-0.22.1",), 50, 0),
        (("vllm-0.8.5",), 50, 0),
        (("vllm-v0-0.8.5",), 50, 0),
        (SGLANG, 40, 0),
    ],
)
def test_rules_equal_the_engine(
    vllm_python: Path, oracles: tuple[str, ...], sequences: int, workloads: int
) -> None:
    options = () if workloads else ("--no-workloads",)
    answers = compared(vllm_python, *oracles, "--sequences", sequences, *options)
    assert [answer["oracle"] for answer in answers] == list(oracles)
    for answer in answers:
        assert answer["first_mismatches"] == []
        assert answer["mismatches"] == 0
        counts = answer["counts"]
        assert (counts["sequences"], counts.get("workloads", 0)) == (sequences, workloads)
        # The sequences reach what they are meant to reach.
        assert all(counts[name] > 5 for name in REACHED), counts
        assert counts["evicted blocks"] > 10 * sequences
        if "groups" in answer["oracle"]:
            assert all(counts[name] > 5 for name in GROUPED), counts


def test_a_wrong_rule_is_found(vllm_python: Path) -> None:
    """The comparison can fail: rules of an older version do not equal the newer manager."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import oracle_list, run
from block_sequences import random_runs
from dataclasses import replace
wrong = replace(oracle_list.ORACLES["vllm-0.32.0"], random=lambda seed, count: random_runs("0.23.0", seed, count))
with run.driver_of(wrong, Path(sys.argv[2])) as driver:
    print(run.compare(wrong, driver, 20, 0, False)["mismatches"])
"""
    folder = Path(__file__).with_name("oracles")
    done = subprocess.run(
        [sys.executable, "-c", program, folder, vllm_python], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.splitlines()[-1]) > 10
