"""Engines with several KV cache groups or a sliding window: the ledger against the pool of a real vLLM manager."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hitcurve_engine.ledger import MISS_REASONS

KINDS = ("hybrid", "window", "window-first", "three")


@pytest.fixture(scope="module")
def answers(repository: Path) -> dict[str, Any]:
    """What the script printed, by kind."""
    python = Path(os.environ.get("HITCURVE_VLLM_PYTHON", repository / ".venv-vllm" / "bin" / "python"))
    if not python.exists():
        pytest.skip("no real vLLM: run make vllm-env")
    done = subprocess.run(
        [
            str(python),
            str(repository / "tests" / "engine_patch" / "real_managers" / "play_groups.py"),
            *KINDS,
        ],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(repository / "engine_patch"), str(repository)]),
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_PLUGINS": "",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


@pytest.mark.real_vllm
@pytest.mark.parametrize("kind", KINDS)
def test_after_every_request_the_ledger_holds_what_the_pool_holds(answers: dict[str, Any], kind: str) -> None:
    played = answers[kind]["random"]
    assert played["differences"] == []
    assert (played["errors"], played["anomalies"], played["sums_right"]) == ({}, [], True)
    totals = played["totals"]
    assert totals["evicted_blocks"] == played["evicted"] > 500
    assert totals["hit_tokens"] == played["hits"] > 1000
    assert (totals["unknown_evictions"], totals["resets"]) == (0, 1)
    assert totals["miss_tokens"]["capacity"] > 1000


@pytest.mark.real_vllm
def test_a_block_of_the_window_that_was_evicted_is_a_capacity_miss(answers: dict[str, Any]) -> None:
    """The full-attention blocks of the prompt are all cached still; four of its window are not."""
    hit, misses = answers["window-first"]["by_hand"]["short"]
    assert (hit, misses) == (32, {**dict.fromkeys(MISS_REASONS, 0), "capacity": 64, "tail": 6})
