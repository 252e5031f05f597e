"""The simulated engine against what was seen of a real vLLM 0.32.0."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve_simulator.server.clock import RealClock
from hitcurve_simulator.server.settings import EngineSettings
from hitcurve_simulator.server.time_model import TimeModel

HERE = Path(__file__).resolve().parent
NOT_SIMULATED = "vllm:estimated_"  # work done by a GPU


def test_every_recorded_exchange_is_answered_alike(
    engine_server: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EngineSettings(
        model="tiny",
        block_size=32,
        num_blocks=129,
        max_model_len=4096,
        max_num_seqs=16,
        max_loras=2,
        time=TimeModel(speed=4),
    )
    server = engine_server(settings, RealClock())
    monkeypatch.setenv("SETTLED_S", "0.005")
    played = tmp_path / "played.json"
    command = [sys.executable, str(HERE / "play_exchanges.py"), server.url, str(played), "path/a", "path/b"]
    subprocess.run(command, check=True)

    recorded, seen = (json.loads(path.read_text()) for path in (HERE / "vllm_0_32_0.json", played))
    families = [family for family in recorded.pop("families") if NOT_SIMULATED not in family]
    assert sorted(seen.pop("families")) == sorted(families)
    assert len(recorded) == 133
    assert seen == recorded


COUNTERS = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
Prompts = list[tuple[Any, dict[str, Any]]]
TABLE: dict[str, tuple[Prompts, list[tuple[int, int]]]] = {
    "100 tokens twice": ([("a" * 100, {})] * 2, [(100, 0), (100, 96)]),
    "128 tokens twice": ([("a" * 128, {})] * 2, [(128, 0), (128, 96)]),
    "129 tokens twice": ([("a" * 129, {})] * 2, [(129, 0), (129, 128)]),
    "33 tokens twice": ([("a" * 33, {})] * 2, [(33, 0), (33, 32)]),
    "20 tokens twice": ([("a" * 20, {})] * 2, [(20, 0), (20, 0)]),
    "exactly a block, twice": ([("a" * 32, {})] * 2, [(32, 0), (32, 0)]),
    "100 shared, 60 new": ([("a" * 100, {}), ("a" * 100 + "b" * 60, {})], [(100, 0), (160, 96)]),
    "prompt_logprobs": ([("a" * 200, {"prompt_logprobs": 1}), ("a" * 200, {})], [(0, 0), (200, 192)]),
    "echo with logprobs": ([("a" * 200, {"echo": True, "logprobs": 1}), ("a" * 200, {})], [(0, 0), (200, 192)]),
    "salts none, A, A, B, none": (
        [("a" * 100, {"cache_salt": salt}) for salt in (None, "A", "A", "B", None)],
        [(100, 0), (100, 0), (100, 96), (100, 0), (100, 96)],
    ),
    "n=4 twice": ([("a" * 200, {"n": 4})] * 2, [(800, 576), (800, 768)]),
    "two equal prompts twice": ([(["a" * 200] * 2, {})] * 2, [(400, 192), (400, 384)]),
    "refused": ([("a" * 5000, {}), ("a" * 100, {"max_tokens": 0})], [(0, 0), (0, 0)]),
}


@pytest.mark.parametrize("name", TABLE)
def test_lookup_counters_rise_as_measured_on_vllm(engine_server: Callable[..., Any], name: str) -> None:
    requests, expected = TABLE[name]
    server = engine_server(EngineSettings(block_size=32, num_blocks=129, max_model_len=4096))
    rises = []
    for prompt, body in requests:
        before = server.series()
        server.complete(prompt, **body)
        after = server.series()
        rises.append(tuple(after[counter] - before[counter] for counter in COUNTERS))
    assert rises == expected


def test_own_output_is_hit_in_the_next_turn(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(block_size=32, num_blocks=129, max_model_len=4096))
    reply = server.complete("a" * 64, max_tokens=64).json["choices"][0]["text"]
    assert len(reply) == 64
    usage = server.complete("a" * 64 + reply + "b" * 32).json["usage"]
    assert (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]) == (160, 96)


def test_block_16_and_two_prompts_of_33(engine_server: Callable[..., Any]) -> None:
    """Case SIM-12."""
    server = engine_server(EngineSettings(block_size=16))
    for _ in range(2):
        server.complete("a" * 33)
    series = server.series()
    assert [series[counter] for counter in COUNTERS] == [66, 32]
