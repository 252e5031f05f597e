"""The miss reasons of a real cache manager against the whole history of its own KV events.

10,000 requests: ``vllm_reason_oracle.py``.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real_vllm

REASONS = ("compulsory", "capacity", "reset", "isolated", "tail", "stranded")


def judge(vllm_python: Path, repository: Path, requests: int, **variables: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the line that was printed."""
    done = subprocess.run(
        [str(vllm_python), str(repository / "tests/real_vllm/vllm_reason_oracle.py"), "--requests", str(requests)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(repository / "engine_patch"), str(repository)]),
            "VLLM_TARGET_DEVICE": "cpu",
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr[-2000:]
    return done.returncode, json.loads(lines[-1])


def test_every_reason_is_that_of_the_whole_history(vllm_python: Path, repository: Path) -> None:
    code, said = judge(vllm_python, repository, 600)
    assert (said["requests that differ"], said["errors"], said["dropped_events"], code) == (0, {}, 0, 0)
    tokens = said["tokens"]
    assert tokens["query"] == tokens["hit"] + sum(tokens[reason] for reason in REASONS)
    assert min(tokens[reason] for reason in REASONS) > 0
    assert min(said[what] for what in ("preemptions", "resets done", "resets refused", "lookups in vain")) > 0


def test_a_patch_that_forgets_is_found_out(vllm_python: Path, repository: Path) -> None:
    code, said = judge(vllm_python, repository, 200, HITCURVE_ISOLATED="off")
    assert code == 1
    assert said["requests that differ"] > 0
