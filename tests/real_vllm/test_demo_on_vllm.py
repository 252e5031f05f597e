"""The main job on a real vLLM: same command, same report, and counters that agree with what clients see."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hitcurve_chaos.report.run_folder import load_run_folder

pytestmark = pytest.mark.real_vllm


@pytest.fixture(scope="module")
def demo(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("vllm") / "run"
    done = subprocess.run(
        [sys.executable, "-m", "hitcurve", "demo", "--engine", "vllm", "--json", "--out", str(folder)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=vllm_python.parents[2],
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout), folder


def test_every_scenario_is_ok_on_real_vllm(demo: tuple[dict[str, Any], Path]) -> None:
    result, folder = demo
    assert {v["scenario"]: v["verdict"] for v in result["verdicts"]} == {
        "pool-pressure": "ok",
        "lora-churn": "ok",
        "reset-prefix-cache": "ok",
    }
    run = load_run_folder(folder).run
    assert (run["engine"]["kind"], run["engine"]["version"]) == ("vllm", "0.32.0")
    assert "real vLLM" in (folder / "report.html").read_text()


def test_exporter_and_client_agree_within_one_block_per_request(demo: tuple[dict[str, Any], Path]) -> None:
    agreement = demo[0]["agreement"]
    assert agreement["requests"] > 500
    assert agreement["unknown_requests"] == 0
    difference = abs(agreement["exporter_hit_tokens"] - agreement["client_cached_tokens"])
    assert difference <= agreement["requests"] * agreement["block_size"]
