"""Real vLLM servers of several processes: what we read in total is what their clients were told."""

import json
import os
import random
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hitcurve.child import ChildProcess
from hitcurve.monitor import TargetMonitor
from hitcurve.scrape import Scrape, fetch
from hitcurve_chaos.demo import tiny_model

pytestmark = pytest.mark.real_vllm

START_S = 300.0
DEADLINE_S = 60.0
BLOCK = 32
REQUESTS = 24
Start = Callable[..., str]


@pytest.fixture(scope="module")
def model(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model."""
    folder = tmp_path_factory.mktemp("model")
    command = [str(vllm_python), tiny_model.__file__, str(folder)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    return folder / "model"


@pytest.fixture
def start(vllm_python: Path, model: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a server with more options; its URL."""
    running: list[ChildProcess] = []

    def begin(*options: str) -> str:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        arguments = [
            "--model",
            str(model),
            "--served-model-name",
            "tiny",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        limits = ["--max-model-len", "2048", "--block-size", str(BLOCK), "--num-gpu-blocks-override", "401"]
        usual = ["--max-num-seqs", "4", "--seed", "1", "--enforce-eager", "--enable-prompt-tokens-details"]
        environment = {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_TARGET_DEVICE": "cpu",
            "HF_HUB_OFFLINE": "1",
            "PYTHONWARNINGS": "ignore",
        }
        command = [
            str(vllm_python),
            "-m",
            "vllm.entrypoints.openai.api_server",
            *arguments,
            *limits,
            *usual,
            *options,
        ]
        process = ChildProcess("vLLM", command, tmp_path / "vllm.log", environment=environment)
        running.append(process)
        url = f"http://127.0.0.1:{port}"
        process.start().wait_healthy(f"{url}/health", START_S)
        return url

    yield begin
    for process in running:
        process.stop()


def complete(url: str, prompt: list[int]) -> dict[str, Any]:
    """The usage of one request on a connection of its own, so that any process may take it."""
    body = json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": 2, "temperature": 0}).encode()
    request = urllib.request.Request(
        f"{url}/v1/completions", body, {"Content-Type": "application/json", "Connection": "close"}
    )
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        usage: dict[str, Any] = json.load(answer)["usage"]
        return usage


def printed(text: str, name: str) -> float:
    """What the engine's own page says, as another parser reads it."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    )


@pytest.mark.parametrize(
    ("options", "engines"),
    [(("--api-server-count", "2"), {"0"}), (("--data-parallel-size", "2"), {"0", "1"})],
    ids=["two API servers", "two data-parallel engines"],
)
def test_totals_are_those_of_the_clients(options: tuple[str, ...], engines: set[str], start: Start) -> None:
    url = start(*options)
    monitor = TargetMonitor(url, windows_s=(600.0,))

    def scrape() -> Scrape:
        return fetch(f"{url}/metrics", 30.0, 1 << 25)

    dice = random.Random(3)
    shared = [dice.randrange(10, 200) for _ in range(8 * BLOCK)]
    # One request each way first, so that every counter is on the page when watching begins.
    for _ in range(8):
        complete(url, [dice.randrange(10, 200) for _ in range(40)])
    first = monitor.observe(scrape())
    prompt_tokens = cached_tokens = 0
    for _ in range(REQUESTS):
        usage = complete(url, shared + [dice.randrange(10, 200) for _ in range(dice.randrange(1, 70))])
        prompt_tokens += usage["prompt_tokens"]
        cached_tokens += (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    assert cached_tokens > 0
    deadline = time.monotonic() + DEADLINE_S
    while True:
        taken = scrape()
        readings = monitor.observe(taken)
        queries = sum(reading.query_tokens_total for reading in readings)
        if queries >= prompt_tokens or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    text = taken.body.decode() if isinstance(taken.body, bytes) else str(taken.body)
    assert {reading.engine for reading in readings} == engines == {reading.engine for reading in first}
    assert queries == prompt_tokens
    assert sum(reading.hit_tokens_total for reading in readings) == cached_tokens
    samples = monitor.samples.values()
    assert sum(one.lookups.queries for one in samples if one.lookups) == printed(
        text, "vllm:prefix_cache_queries_total"
    )
    assert sum(one.lookups.hits for one in samples if one.lookups) == printed(text, "vllm:prefix_cache_hits_total")
    assert not [flag for reading in readings for flag in reading.flags]
