"""Drills on real simulated engines that the run starts, pauses, kills and ends itself."""

import importlib.util
import json
import os
import random
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.access import StartSpec
from hitcurve_chaos.calls import HttpTransport, NoAnswer
from hitcurve_chaos.carry_out import RunRequest, carry_out
from hitcurve_chaos.drivers.processes import state_of
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.parameters import resolve
from hitcurve_chaos.plan import plan
from hitcurve_chaos.progress import Silent
from hitcurve_chaos.results import Results
from hitcurve_chaos.scenarios.drills import drill
from hitcurve_chaos.scenarios.registry import SCENARIOS
from hitcurve_chaos.scenarios.scenario import Bench, Story
from hitcurve_chaos.suite import Entry, Suite, plan_suite
from hitcurve_chaos.targets import Target

OPTIONS = ("--speed", "10", "--max-model-len", "2048")
DRILLS = [
    name
    for name, scenario in SCENARIOS.items()
    if not scenario.under_load
    and name not in ("core-kill", "container-starved", "container-cut-off", "collector-lost")
]
STORY = Story("It dies.", "Nothing.", "None.", "None.")
SHORT: dict[str, object] = {
    "paused": "0.3s",
    "most_tokens": 1500,
    "pairs": 7,
    "latency": "50ms",
    "jitter": "10ms",
    "recover_within": "30s",
}


def run(folder: Path, names: list[str], *, options: tuple[str, ...] = ("--patched",)) -> Results:
    start = StartSpec(replicas=2, pool_blocks=512, options=(*OPTIONS, *options))
    target = Target("own", "http://127.0.0.1:0", "", start=start)
    planned = plan_suite(Suite("s", "S", [Entry(name) for name in names]), short_for(names), 7)
    return carry_out(RunRequest(target, planned, folder, 7), Silent())


def short_for(names: list[str]) -> dict[str, object]:
    known = {parameter.name for name in names for parameter in SCENARIOS[name].all_parameters()}
    return {key: value for key, value in SHORT.items() if key in known}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """Every drill, once, on healthy engines."""
    folder = tmp_path_factory.mktemp("healthy") / "run"
    return folder, run(folder, DRILLS)


@pytest.mark.parametrize("name", DRILLS)
def test_a_healthy_engine_is_ok(name: str, healthy: tuple[Path, Results]) -> None:
    (verdict,) = [verdict for verdict in healthy[1].verdicts if verdict.scenario == name]
    assert (verdict.verdict, list(verdict.problems)) == ("ok", [])
    assert verdict.numbers["outputs_compared"]
    assert all(judgement.met for judgement in verdict.judgements if judgement.value is not None)


def test_nothing_is_skipped_and_all_engines_have_ended(healthy: tuple[Path, Results]) -> None:
    folder, results = healthy
    assert results.skipped == []
    assert (folder / "report.html").is_file()
    run_record = json.loads((folder / "run.json").read_text())
    with pytest.raises(NoAnswer):
        HttpTransport().send("GET", f"{run_record['engine']['url']}/health", timeout_s=2)
    for line in (folder / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)["detail"].get("record", {})
        if "pid" in record:
            assert state_of(record["pid"]) is None


def test_an_engine_without_a_cache_is_found_out(tmp_path: Path) -> None:
    results = run(tmp_path / "run", ["counters-honest"], options=("--no-enable-prefix-caching",))
    (verdict,) = results.verdicts
    assert verdict.verdict in ("invalid", "bad")
    assert any(j.name == "outputs_compared" and j.met is False for j in verdict.judgements)


def test_stale_answers_of_a_reloaded_adapter_are_found_where_the_name_alone_is_hashed(tmp_path: Path) -> None:
    """vLLM hashes an adapter's path only since 0.31."""
    results = run(tmp_path / "run", ["adapter-reload"], options=("--version", "0.30.0"))
    (verdict,) = results.verdicts
    assert verdict.verdict == "bad"
    assert verdict.problems[0].startswith("WRONG OUTPUT: a reloaded adapter (80 tokens cached) differs at token 1")
    assert verdict.numbers["stale_answers"] == 1


def test_replicas_that_draw_their_root_are_found_out(tmp_path: Path) -> None:
    """vLLM before 0.29 draws it in each process, unless PYTHONHASHSEED is set."""
    (verdict,) = run(tmp_path / "run", ["hash-seed-disagreement"], options=("--version", "0.28.0")).verdicts
    assert (verdict.verdict, verdict.numbers["roots"]) == ("bad", 2)


@pytest.fixture(scope="module")
def kills(repository: Path) -> ModuleType:
    path = repository / "tests" / "chaos" / "kills" / "kill_runner.py"
    spec = importlib.util.spec_from_file_location("kill_runner", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_runner_that_is_killed_leaves_nothing_after_recover(kills: Any, tmp_path: Path) -> None:
    victim, tally, randomness = kills.Victim(tmp_path), kills.Tally(), random.Random(11)
    try:
        for _ in range(3):
            kills.kill_once(victim, randomness, tally)
    finally:
        victim.close()
    assert (tally.kills, tally.left) == (3, [])


def test_an_engine_that_a_scenario_leaves_silent_is_started_again_for_the_next(tmp_path: Path) -> None:
    def die(bench: Bench, numbers: dict[str, Any]) -> Injection:
        os.kill(bench.driver().record("kill")["pid"], signal.SIGKILL)
        return Injection("applied", "the engine died of it")

    deadly = drill(name="deadly", title="D", expected="E.", act=die, expectations=(), story=STORY, needs=())
    settings = {"recover_within": "2s"}
    planned = [(deadly, resolve(deadly.all_parameters(), settings)), *plan(["counters-honest"], settings)]
    target = Target("own", "http://127.0.0.1:0", "", start=StartSpec(pool_blocks=512, options=OPTIONS))
    dead, after = carry_out(RunRequest(target, planned, tmp_path / "run", 7), Silent()).verdicts
    assert (dead.verdict, dead.restored) == ("bad", True)
    assert dead.problems[0] == "the engine completed no request after the fault: it ended with exit code -9"
    assert (after.verdict, list(after.problems)) == ("ok", [])
    assert '"engine_restarting"' in (tmp_path / "run" / "journal.jsonl").read_text()
