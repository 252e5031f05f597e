"""The recipe scenario of make compat on the installed vLLM: the bounded part of what runs on every release."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real_vllm


def test_the_scenario_on_the_installed_vllm(vllm_python: Path, repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(repository / "tests" / "real_vllm" / "compat" / "run.py"), "installed", "--json"],
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "HITCURVE_VLLM_PYTHON": str(vllm_python)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(done.stdout)
    assert (result["problems"], result["counters"]) == ([], "admissions")
    assert len(result["hooks"]) == 9
