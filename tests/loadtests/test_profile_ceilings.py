"""Every profile reaches the ceiling that the estimator gives its traffic, on an engine whose pool holds it."""

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitcurve.child import ChildProcess
from hitcurve_loadtests.plan import LoadOptions, plan_load
from hitcurve_loadtests.planned_trace import write_planned_trace
from hitcurve_loadtests.profiles.catalogue import find_profile, profile_names
from hitcurve_simulator.estimate.answer import answer
from hitcurve_simulator.estimate.estimate import Estimator
from hitcurve_simulator.estimate.question import Question
from hitcurve_simulator.estimate.traffic import Reading, load_traffic
from hitcurve_simulator.traces.tokenizers import tokenizer_by_name

HALF_A_POINT = 0.005
USERS = 4
ADAPTERS = ("ada", "bob", "cyd", "dee")


@pytest.fixture(scope="module")
def big_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A simulated engine that never evicts in these tests."""
    command = [sys.executable, "-m", "hitcurve", "engine", "--port", "0", "--pool-blocks", "200000"]
    words = ["--speed", "200", "--max-model-len", "32768"]
    with ChildProcess("engine", [*command, *words], tmp_path_factory.mktemp("engine") / "log") as process:
        yield process.wait_listening(30)


@pytest.fixture(scope="module")
def adapters(big_engine: str) -> tuple[str, ...]:
    for name in ADAPTERS:
        body = json.dumps({"lora_name": name, "lora_path": "simulated"}).encode()
        request = urllib.request.Request(f"{big_engine}/v1/load_lora_adapter", body)
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request, timeout=10).close()
    return ADAPTERS


def estimated(path: Path, warm_up: float = 0.0, pool_blocks: int | None = None) -> float:
    """The ceiling, or the rate in a pool, as ``hitcurve estimate --outputs --tokenizer bytes`` gives it."""
    reading = Reading(block_size=16, tokenizer=tokenizer_by_name("bytes"))
    traffic = load_traffic([str(path)], reading, lambda *line: None)
    found = answer(Estimator(traffic, True, warm_up), Question(pools=(pool_blocks,) if pool_blocks else ()))
    engine_like = found["ceiling"]["engine_like"]["token"]
    rate: float = found["curve"][0]["engine_like_hit_rate"] if pool_blocks else engine_like
    return rate


@pytest.mark.parametrize("name", profile_names())
def test_a_profile_reaches_its_estimated_ceiling_once_warm(
    name: str, big_engine: str, adapters: tuple[str, ...], load: Any, tmp_path: Path
) -> None:
    expected = find_profile(name).expected
    assert expected is not None
    # Of its own, since profiles of one kind and one seed share their texts.
    seed = 1000 + profile_names().index(name)
    options: dict[str, Any] = {"profile": name, "requests": expected.requests, "seed": seed}
    write_planned_trace(plan_load(LoadOptions(host=big_engine, **options)), tmp_path / "planned.jsonl")
    ceiling = estimated(tmp_path / "planned.jsonl", expected.warm_up / expected.requests)
    # Of several users, whose chat gets its turn depends on the moment, and with it which turns are warm-up. Their
    # first requests may all be cold, so these have to be warm-up.
    users = 1 if find_profile(name).kind == "multi-turn" or expected.warm_up < USERS else USERS
    models = [word for adapter in adapters for word in ("--model", adapter)]
    ended = load(
        *(name, "--host", big_engine, "--users", users, "--requests", expected.requests, "--seed", seed),
        *("--warm-up", expected.warm_up, "--max-lag", 10, "--json", *(models if "adapters" in name else ())),
    )
    assert ended.code == 0, ended.err
    summary = ended.summary
    assert summary["requests"]["ok"] == expected.requests
    assert summary["warm"]["hit_rate"] == pytest.approx(ceiling, abs=HALF_A_POINT)
    assert summary["intended"]["ceiling"] == pytest.approx(ceiling, abs=HALF_A_POINT)
    assert summary["both_ends"]["hosts"][0]["explanation"] is None
    # What the file says holds for any seed, so more loosely for this one.
    assert expected.ceiling == pytest.approx(ceiling, abs=0.05)
    assert expected.shared == pytest.approx(summary["intended"]["shared"], abs=0.05)
    if summary["api"] == "completions" and "workload" not in name:
        assert summary["intended"]["prompt_tokens_off"] == 0


@pytest.mark.parametrize("name", ["workload-e", "workload-f"])
def test_in_a_pool_that_is_too_small_one_user_gets_what_the_estimator_predicts(
    name: str, load: Any, tmp_path: Path
) -> None:
    spec = find_profile(name)
    expected, pool_tokens = spec.expected, spec.pool_tokens
    assert expected is not None
    assert expected.in_pool is not None
    assert pool_tokens is not None
    blocks = pool_tokens // 16
    options: dict[str, Any] = {"profile": name, "requests": expected.requests, "seed": 5}
    write_planned_trace(plan_load(LoadOptions(host="http://any", **options)), tmp_path / "planned.jsonl")
    predicted = estimated(tmp_path / "planned.jsonl", pool_blocks=blocks)
    command = [sys.executable, "-m", "hitcurve", "engine", "--port", "0", "--speed", "2000"]
    with ChildProcess("engine", [*command, "--pool-blocks", str(blocks)], tmp_path / "log") as engine:
        url = engine.wait_listening(30)
        ended = load(name, "--host", url, "--users", 1, "--seed", 5, "--requests", 192, "--max-lag", 10, "--json")
    assert ended.code == 0, ended.err
    assert ended.summary["cache"]["hit_rate"] == pytest.approx(predicted, abs=2 * HALF_A_POINT)
    assert expected.in_pool == pytest.approx(predicted, abs=0.05)
    assert predicted < expected.ceiling - 0.02
