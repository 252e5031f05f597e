"""Cached tokens of each request: a real vLLM 0.32 with a pool of 128 blocks, one request after the other, against
our rules on the same tokens. No request may differ.

The pool is never reset between the groups of requests, so that each begins on what the ones before left.
"""

import json
import random
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitcurve_chaos.demo.engines import RunningEngine, start_vllm
from hitcurve_simulator.vllm import CacheManager, Request, RequestState, Scheduler, rules_of_version

pytestmark = pytest.mark.real_vllm

BLOCK, POOL = 32, 128
DEADLINE_S = 60.0
FIRST_TOKEN, LAST_TOKEN = 20, 120


@pytest.fixture(scope="module")
def engine(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HITCURVE_VLLM_ENV", str(vllm_python.parents[1]))
        running = start_vllm(
            tmp_path_factory.mktemp("vllm") / "vllm.log", block_size=BLOCK, pool_blocks=POOL, seed=1
        )
    for name, path in running.adapters[:2]:
        post(running, "/v1/load_lora_adapter", {"lora_name": name, "lora_path": path})
    yield running
    running.process.stop()


def post(engine: RunningEngine, path: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(
        engine.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        content: bytes = answer.read()
        return content


def page(engine: RunningEngine) -> dict[str, float]:
    """vLLM's own lookup counters."""
    with urllib.request.urlopen(f"{engine.url}/metrics", timeout=DEADLINE_S) as answer:
        lines = answer.read().decode().splitlines()
    names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
    return {name: float(line.split()[-1]) for line in lines for name in names if line.startswith(f"{name}{{")}


class Simulation:
    """Our scheduler and cache manager, serving what the engine served and generating what it generated."""

    def __init__(self, engine: RunningEngine) -> None:
        self._paths = dict(engine.adapters)
        self._outputs: list[int] = []
        self.manager = CacheManager(POOL + 1, BLOCK, rules_of_version("0.32.0"))
        self.scheduler = Scheduler(self.manager, next_token=self._next_token)

    def serve(self, name: str, prompt: list[int], output: list[int], adapter: str | None, salt: str | None) -> int:
        """Cached tokens of the request."""
        self._outputs = output
        path = self._paths[adapter] if adapter else ""
        self.scheduler.add(Request(name, tuple(prompt), len(output), adapter, path, salt))
        hits = None
        while self.scheduler.has_requests:
            for finished in self.scheduler.step().finished:
                hits = finished.hit_tokens
        assert hits is not None
        return hits

    def _next_token(self, state: RequestState) -> int:
        return self._outputs[state.output_tokens]


def tokens(dice: random.Random, count: int) -> list[int]:
    return [dice.randint(FIRST_TOKEN, LAST_TOKEN) for _ in range(count)]


def without_eviction(dice: random.Random) -> list[dict[str, Any]]:
    """60 prompts that fill no more than half of the pool."""
    shared = [tokens(dice, length) for length in (300, 420, 170)]
    return [
        {"prompt": dice.choice(shared) + tokens(dice, dice.randint(1, 24)), "max_tokens": 1} for _ in range(60)
    ]


def block_aligned(dice: random.Random) -> list[dict[str, Any]]:
    """30 prompts of exactly four blocks, each three times: the last block is computed again."""
    prompts = [tokens(dice, 4 * BLOCK) for _ in range(30)]
    return [{"prompt": prompt, "max_tokens": 1} for prompt in prompts for _ in range(3)]


def shared_prefixes(dice: random.Random) -> list[dict[str, Any]]:
    """200 prompts over 8 prefixes that do not fit in the pool together."""
    prefixes = [tokens(dice, dice.randint(500, 1100)) for _ in range(8)]
    return [
        {
            "prompt": dice.choice(prefixes) + tokens(dice, dice.randint(1, 200)),
            "max_tokens": dice.choice((1, 1, 20, 40)),
        }
        for _ in range(200)
    ]


def growing_sessions(dice: random.Random) -> list[dict[str, Any]]:
    """200 turns of 10 sessions, each on top of the one before; a session begins anew before it gets too long."""
    sessions: list[list[int]] = [[] for _ in range(10)]
    turns = []
    for _ in range(200):
        at = dice.randrange(len(sessions))
        if len(sessions[at]) > 1500:
            sessions[at] = []
        sessions[at] = sessions[at] + tokens(dice, dice.randint(20, 160))
        turns.append({"prompt": sessions[at], "max_tokens": dice.choice((1, 8))})
    return turns


def chats(dice: random.Random, adapters: list[str]) -> list[dict[str, Any]]:
    """60 chats over two adapters and two salts with three system prompts."""
    letters = "abcdefghijklmnop "
    systems = ["".join(dice.choices(letters, k=length)) for length in (500, 640, 700)]
    return [
        {
            "model": dice.choice(adapters),
            "cache_salt": dice.choice(("red", "blue")),
            "messages": [
                {"role": "system", "content": dice.choice(systems)},
                {"role": "user", "content": "".join(dice.choices(letters, k=dice.randint(10, 200)))},
            ],
            "max_tokens": dice.choice((1, 6)),
        }
        for _ in range(60)
    ]


def test_no_request_differs(engine: RunningEngine) -> None:
    simulation = Simulation(engine)
    adapters = [name for name, _ in engine.adapters[:2]]
    dice = random.Random(1)
    groups = {
        "without eviction": (60, without_eviction(dice)),
        "block-aligned": (90, block_aligned(dice)),
        "shared prefixes": (200, shared_prefixes(dice)),
        "growing sessions": (200, growing_sessions(dice)),
        "adapters and salts": (60, chats(dice, adapters)),
    }
    differing: dict[str, int] = {}
    evictions: dict[str, int] = {}
    hits: dict[str, int] = {}
    for group, (count, bodies) in groups.items():
        evicted = simulation.manager.pool.evictions
        pairs = [pair_of(engine, simulation, f"{group} {number}", body) for number, body in enumerate(bodies)]
        assert len(pairs) == count
        differing[group] = sum(theirs != ours for theirs, ours in pairs)
        evictions[group] = simulation.manager.pool.evictions - evicted
        hits[group] = sum(theirs for theirs, _ in pairs)
        print(f"{group}: {count} requests, {hits[group]} cached tokens, {differing[group]} differ")
    assert differing == dict.fromkeys(groups, 0)
    # Each group is what its name says.
    assert evictions["without eviction"] == 0
    assert hits["block-aligned"] == 30 * 2 * 96
    assert all(evictions[group] > 200 for group in ("shared prefixes", "growing sessions", "adapters and salts"))
    assert all(hits[group] > 1000 for group in groups)
    counted = simulation.manager.statistics
    assert list(page(engine).values()) == [counted.queries, counted.hits]


def pair_of(engine: RunningEngine, simulation: Simulation, name: str, body: dict[str, Any]) -> tuple[int, int]:
    """Cached tokens of one request, by the engine and by our rules."""
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    asked = {"model": engine.model, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **body}
    answer = json.loads(post(engine, path, asked))
    choice = answer["choices"][0]
    prompt = answer.get("prompt_token_ids") or choice.get("prompt_token_ids") or body["prompt"]
    adapter = body.get("model")
    ours = simulation.serve(name, prompt, choice["token_ids"], adapter, body.get("cache_salt"))
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"], ours
