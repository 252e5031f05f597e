"""An engine that a scenario is the death of: the verdict says how it ended, and the run goes on with a new one."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hitcurve.child import ChildProcess
from hitcurve_chaos import opened
from hitcurve_chaos.access import StartSpec
from hitcurve_chaos.carry_out import RunRequest, carry_out
from hitcurve_chaos.demo.engines import RunningEngine
from hitcurve_chaos.drivers.last_words import last_words
from hitcurve_chaos.plan import plan
from hitcurve_chaos.progress import Silent
from hitcurve_chaos.results import Results
from hitcurve_chaos.targets import Target

SPEC = StartSpec(pool_blocks=256, options=("--speed", "10", "--max-model-len", "2048"))

DIES_OF_LOGPROBS = """
import os, sys
from hitcurve_simulator.server import completions
answered, original = [], completions.prompt_logprobs

def prompt_logprobs(prompt):
    answered.append(prompt)
    if len(answered) > 2:
        print("(Worker) ERROR core.py: RuntimeError: einsum(): the sizes 2 and 128 do not fit", flush=True)
        print("(APIServer) ERROR: vllm.v1.engine.exceptions.EngineDeadError: EngineCore is gone", flush=True)
        os._exit(3)
    return original(prompt)

completions.prompt_logprobs = prompt_logprobs
from hitcurve.cli import main
main()
"""


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Own engines die of the third request for prompt logprobs; the logs of those that were started."""
    logs: list[Path] = []

    def start(
        log: Path, *, block_size: int, pool_blocks: int, seed: int, options: Sequence[str], port: int
    ) -> RunningEngine:
        words = ("engine", "--port", str(port), "--pool-blocks", str(pool_blocks), *options)
        process = ChildProcess("the engine", [sys.executable, "-c", DIES_OF_LOGPROBS, *words], log)
        logs.append(log)
        url = process.start().wait_listening(60.0)
        return RunningEngine("sim", process, url, "simulated", "0", block_size, words, ())

    monkeypatch.setattr(opened, "start_simulated", start)
    return logs


def run(target: Target, folder: Path) -> Results:
    # Whoever waits for an engine that nobody else starts makes this a matter of minutes.
    settings = {"recover_within": "10m", "baseline_within": "20s"}
    planned = plan(["prompt-logprobs-storm", "counters-honest"], settings)
    return carry_out(RunRequest(target, planned, folder, 7), Silent())


def test_the_verdict_says_how_the_engine_ended_and_the_next_scenario_has_a_new_one(
    tmp_path: Path, starts: list[Path]
) -> None:
    storm, after = run(Target("own", "http://127.0.0.1:0", "", start=SPEC), tmp_path / "run").verdicts
    assert (storm.verdict, storm.restored) == ("bad", True)
    assert storm.problems[0] == (
        "the engine completed no request after the fault: it ended with exit code 3, its log says "
        "'RuntimeError: einsum(): the sizes 2 and 128 do not fit'"
    )
    assert storm.numbers["recovery_s"] == "never"
    assert (after.verdict, list(after.problems)) == ("ok", [])
    assert [log.name for log in starts] == ["engine-own-1.log", "engine-own-2.log"]


def test_where_nothing_may_start_it_the_system_is_not_restored(tmp_path: Path) -> None:
    words = [sys.executable, "-c", DIES_OF_LOGPROBS, "engine", "--port", "0", *SPEC.options]
    with ChildProcess("the engine", words, tmp_path / "engine.log") as process:
        (tmp_path / "pid").write_text(str(process.process_id))
        target = Target("t", process.wait_listening(60.0), "simulated", pid_file=tmp_path / "pid")
        planned = plan(["prompt-logprobs-storm", "counters-honest"], {"recover_within": "2s"})
        storm, after = carry_out(RunRequest(target, planned, tmp_path / "run", 7), Silent()).verdicts
    assert (storm.verdict, storm.restored) == ("bad", False)
    assert storm.problems[0] == "system not restored: the engine completes no request, and nothing can start it"
    assert storm.problems[1].startswith(
        "the engine completed no request after the fault: it has ended (there is no"
    )
    assert (after.verdict, list(after.problems)) == (
        "invalid",
        ["not started, system not restored after prompt-logprobs-storm"],
    )


def test_every_start_of_an_engine_has_a_log_of_its_own(tmp_path: Path, starts: list[Path]) -> None:
    """Whether or not one engine's name goes on as another's number."""
    target = Target("own", "http://127.0.0.1:0", "", start=StartSpec(replicas=2, options=SPEC.options))
    with opened.opened(target, tmp_path) as (_, drivers):
        for name in ("own", "own-1"):
            drivers.by_target[name].start()
    assert [log.name for log in starts] == [
        "engine-own-1.log",
        "engine-own-1-1.log",
        "engine-own-2.log",
        "engine-own-1-2.log",
    ]
    assert len(set(starts)) == 4


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (None, None),
        ("", None),
        ("INFO all is well\nINFO: GET /metrics\n", None),
        (
            "ValueError: first\nINFO x\n12:00 RuntimeError: no memory left\nINFO bye\n",
            "RuntimeError: no memory left",
        ),
        ("KeyError: 'x'\na.b.EngineDeadError: it is gone\n", "KeyError: 'x'"),
        ("raise RuntimeError(\nValueError:\n", None),
        ("OSError: " + "x" * 500, "OSError: " + "x" * 191),
    ],
)
def test_last_words(tmp_path: Path, log: str | None, words: str | None) -> None:
    if log is not None:
        (tmp_path / "log").write_text(log)
    assert last_words(tmp_path / "log") == words
