"""Ceiling, prediction and measurement on a real vLLM: with room for everything, and under pressure."""

import json
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hitcurve_chaos.demo.engines import RunningEngine, start_vllm

pytestmark = pytest.mark.real_vllm

BLOCK, POOL = 32, 128
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def engine(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """A real vLLM with a pool of 128 blocks and two adapters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HITCURVE_VLLM_ENV", str(vllm_python.parents[1]))
        log = tmp_path_factory.mktemp("vllm") / "vllm.log"
        running = start_vllm(log, block_size=BLOCK, pool_blocks=POOL, seed=1)
    for name, path in running.adapters[:2]:
        _post(running.url, "/v1/load_lora_adapter", {"lora_name": name, "lora_path": path})
    yield running
    running.process.stop()


def _post(url: str, path: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        content: bytes = answer.read()
        return content


def send(engine: RunningEngine, bodies: Sequence[dict[str, Any]], at_once: int, log: Path) -> Path:
    """Send requests, so many at once, and log each as a client would."""

    def one(body: dict[str, Any]) -> dict[str, Any]:
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        asked = {"model": engine.model, "temperature": 0, "ignore_eos": True, **body}
        at_s = time.time()
        answer = json.loads(_post(engine.url, path, asked))
        return {"at_s": at_s, "duration_s": time.time() - at_s, "request": asked, "response": answer}

    with ThreadPoolExecutor(at_once) as senders:
        lines = list(senders.map(one, bodies))
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return log


def reconciled(
    engine: RunningEngine, before: Path, log: Path, warm: Sequence[Path], tolerance: float
) -> dict[str, Any]:
    command = [sys.executable, "-m", "hitcurve", "reconcile", "--json", "--metrics", f"{engine.url}/metrics"]
    options = [
        "--before",
        str(before),
        "--log",
        str(log),
        "--tolerance",
        str(tolerance),
        *(word for file in warm for word in ("--warm", str(file))),
    ]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def page(engine: RunningEngine, file: Path) -> Path:
    with urllib.request.urlopen(f"{engine.url}/metrics", timeout=DEADLINE_S) as answer:
        file.write_bytes(answer.read())
    return file


def text(dice: random.Random, length: int) -> str:
    return "".join(dice.choices("abcdefghijklmnop ", k=length))


def prompts(seed: int, count: int, prefixes: int, prefix: int, tail: int, output: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    shared = [text(dice, prefix) for _ in range(prefixes)]
    return [
        {
            "prompt": dice.choice(shared) + text(dice, dice.randrange(1, tail)),
            "max_tokens": dice.randrange(1, output),
        }
        for _ in range(count)
    ]


def chats(seed: int, count: int, models: Sequence[str]) -> list[dict[str, Any]]:
    """Chats over adapters and salts with the same system prompts, some asked about by two people."""
    dice = random.Random(seed)
    systems = [text(dice, 300) for _ in range(2)]
    return [
        {
            "model": dice.choice(models),
            "cache_salt": dice.choice(["red", "blue"]),
            "user": f"user {number % 2}",
            "messages": [
                {"role": "system", "content": dice.choice(systems)},
                {"role": "user", "content": text(dice, dice.randrange(10, 200))},
            ],
            "max_tokens": dice.randrange(1, 12),
        }
        for number in range(count)
    ]


def test_prediction_meets_measurement(engine: RunningEngine, tmp_path: Path) -> None:
    models = [engine.model, *(name for name, _ in engine.adapters[:2])]
    phases = {
        "room for everything": (prompts(1, 16, 2, 200, 120, 4), 1, 0.1),
        "block-aligned, three times": ([{"prompt": text(random.Random(5), 128), "max_tokens": 1}] * 3, 1, 0.1),
        "one by one under pressure": (prompts(2, 120, 8, 640, 300, 24), 1, 1.0),
        "adapters and salts": (chats(3, 60, models), 1, 1.0),
        # Clients' clocks do not tell in which order an engine with a late API server took their requests.
        "many at once under pressure": (prompts(4, 150, 8, 640, 300, 24), 8, 5.0),
    }
    warm: list[Path] = []
    for number, (name, (bodies, at_once, points)) in enumerate(phases.items()):
        before = page(engine, tmp_path / f"{number}.prom")
        log = send(engine, bodies, at_once, tmp_path / f"{number}.jsonl")
        found = reconciled(engine, before, log, warm, points)
        warm.append(log)
        row = found["rows"][0]
        assert (found["verdict"], found["requests"], row["query_tokens"]) == (
            "ok",
            len(bodies),
            found["engines"][0]["counted_query_tokens"],
        ), name
        assert found["engines"][0]["version"] == "0.32.0"
        measured = row["hit_tokens"]["measurement"]
        assert measured + sum(row["gap_tokens"].values()) == row["query_tokens"], name
        assert abs(row["gap_points"]["unknown"]) <= points, (name, row)
        if at_once == 1:
            assert row["gap_tokens"]["unknown"] == 0, (name, row)
        if "pressure" in name:
            assert row["gap_points"]["eviction"] > 5, (name, row)
        if name == "adapters and salts":
            assert row["gap_tokens"]["isolation"] > 0
            parts = found["rows"][1:]
            assert {(part["adapter"], part["tenant"]) for part in parts} == {
                (model, tenant) for model in models for tenant in ("user 0", "user 1")
            }
            assert all(part["gap_tokens"]["unknown"] == 0 for part in parts)
