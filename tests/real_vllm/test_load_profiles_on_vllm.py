"""Profiles on a real vLLM: what clients and engine count is the ceiling that was worked out before, to a point."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from hitcurve_chaos.demo.engines import RunningEngine, start_vllm

pytestmark = pytest.mark.real_vllm

A_POINT = 0.01
BLOCK = 32
FEW_TOKENS = ["--output-tokens", "2"]


@pytest.fixture(scope="module")
def vllm(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    engine = start_vllm(log, block_size=BLOCK, pool_blocks=3000, seed=1)
    with engine.process:
        for name, path in engine.adapters[:4]:
            body = json.dumps({"lora_name": name, "lora_path": path}).encode()
            request = urllib.request.Request(f"{engine.url}/v1/load_lora_adapter", body)
            request.add_header("Content-Type", "application/json")
            urllib.request.urlopen(request, timeout=60).close()
        yield engine


def load(engine: RunningEngine, *words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "hitcurve", "load", "--host", engine.url, "--max-lag", "10", "--json"]
    done = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def check(summary: dict[str, Any]) -> None:
    intended = summary["intended"]
    assert intended["block_size"] == BLOCK
    assert summary["tokens_of"].endswith("/tokenize")
    assert summary["warm"]["hit_rate"] == pytest.approx(intended["ceiling"], abs=A_POINT)
    (host,) = summary["both_ends"]["hosts"]
    assert host["explanation"] is None
    assert host["engine"]["hit_tokens"] == host["client"]["hit_tokens"] > 0


def test_multi_turn(vllm: RunningEngine) -> None:
    words = ["--users", 2, "--requests", 60, "--warm-up", 20, "--output-tokens", 8]
    summary = load(vllm, "multi-turn", *words, "--sessions", 4, "--turns", 5, "--groups", 2)
    check(summary)
    assert summary["intended"]["ceiling"] > 0.8


def test_shared_system_prompt(vllm: RunningEngine) -> None:
    summary = load(
        vllm, "shared-system-prompt", "--users", 4, "--requests", 80, "--warm-up", 40, "--groups", 3, *FEW_TOKENS
    )
    check(summary)
    assert summary["intended"]["prompt_tokens_off"] == 0


def test_adapter_mix(vllm: RunningEngine) -> None:
    models = [word for name, _ in vllm.adapters[:4] for word in ("--model", name)]
    words = ["--users", 4, "--requests", 80, "--warm-up", 50, "--groups", 1, *FEW_TOKENS]
    summary = load(vllm, "adapters-uniform", *models, *words)
    check(summary)
    assert len(summary["models"]) == 4


def test_salts(vllm: RunningEngine) -> None:
    check(load(vllm, "tenants", "--users", 4, "--requests", 90, "--warm-up", 60, *FEW_TOKENS))


def test_mooncake_replay(vllm: RunningEngine, shared: Path, tmp_path: Path) -> None:
    with (shared / "traces/mooncake_fast25_conversation_trace.jsonl").open() as whole:
        (tmp_path / "trace.jsonl").write_text("".join(islice(whole, 80)))
    words = ["--max-prompt-tokens", 1500, "--output-tokens", 1, "--users", 1, "--requests", 80]
    summary = load(vllm, "--trace", tmp_path / "trace.jsonl", *words)
    check(summary)
    assert summary["intended"]["prompt_tokens_off"] == 0
