"""Whatever happens to a run, its faults are undone: at once where the run lives, by ``recover`` where it died."""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve import cli
from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_chaos import command
from hitcurve_chaos.journal import JournalEntry, read_journal
from hitcurve_chaos.recover import end_orphan_loads, left_over, recover
from hitcurve_chaos.runner import run_scenarios

SETTINGS = {"baseline": 3, "baseline_within": 20, "hold": 4, "recover_within": 12}
FAULTS = ("reset-prefix-cache", "pool-pressure", "lora-churn")
MOST_STEPS = 600


class Killed(BaseException):
    """The run is dead: whatever it tries raises this."""


def run(scripted: ModuleType, world: Any, name: str) -> Any:
    target = scripted.target_at("http://127.0.0.1:1")
    return run_scenarios(target, [name], world.folder, 7, SETTINGS, tools=scripted.tools_of(world))


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(FAULTS),
    step=st.integers(1, MOST_STEPS),
    error=st.sampled_from([RuntimeError, KeyboardInterrupt, EnvironmentFailed, OSError]),
)
def test_whatever_step_raises_every_injected_fault_is_undone(
    scripted: ModuleType, name: str, step: int, error: type[BaseException]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = scripted.ScriptedWorld(Path(folder))
        taken = 0

        def interrupt(what: str) -> None:
            nonlocal taken
            taken += what != "now"
            if taken == step and what != "now":
                taken += 1
                raise error("here")

        world.interrupt = interrupt
        verdicts = []
        with contextlib.suppress(error):
            verdicts = run(scripted, world, name)
        world.interrupt = lambda what: None
        assert world.adapters == set()
        assert world.running == {}
        entries = list(read_journal(world.folder)) if (world.folder / "journal.jsonl").exists() else []
        assert left_over(entries) == []
        begun = [entry.event for entry in entries if entry.event.startswith("fault_")]
        if begun and "fault_refused" not in begun:
            assert begun[0] == "fault_injecting"
            assert begun[-2:] == ["fault_undoing", "fault_undone"]
        assert all(verdict.restored for verdict in verdicts)


@pytest.mark.parametrize("moment", ["sleep", "send POST http://127.0.0.1:1/v1/completions"])
def test_a_run_that_was_killed_is_undone_by_recover(scripted: ModuleType, world: Any, moment: str) -> None:
    dead = False

    def kill(what: str) -> None:
        nonlocal dead
        dead = dead or (what == moment and bool(world.adapters))
        if dead:
            raise Killed

    world.interrupt = kill
    with pytest.raises(Killed):
        run(scripted, world, "lora-churn")
    assert world.adapters
    assert [entry.scenario for entry in left_over(read_journal(world.folder))] == ["lora-churn"]

    world.interrupt = lambda what: None
    (done,) = recover(world.folder, world, world)
    assert (done.scenario, done.fault, done.undo.restored) == ("lora-churn", "adapter_churn", True)
    assert world.adapters == set()
    assert [entry.event for entry in read_journal(world.folder)][-2:] == ["fault_undoing", "fault_undone"]
    assert recover(world.folder, world, world) == []


def test_recover_leaves_adapters_of_others_alone(scripted: ModuleType, world: Any) -> None:
    world.adapters.add("somebody-elses")
    dead = False

    def kill(what: str) -> None:
        nonlocal dead
        dead = dead or (what == "sleep" and len(world.adapters) > 1)
        if dead:
            raise Killed

    world.interrupt = kill
    world._curve = lambda: ("steady", None, 0.8)
    with pytest.raises(Killed):
        run(scripted, world, "lora-churn")
    world.interrupt = lambda what: None
    recover(world.folder, world, world)
    assert world.adapters == {"somebody-elses"}


def entry(event: str, **detail: Any) -> JournalEntry:
    return JournalEntry(0.0, "s", event, detail)


@pytest.mark.parametrize(
    ("events", "open_faults"),
    [
        ([], 0),
        ([entry("fault_injecting")], 1),
        ([entry("fault_injecting"), entry("fault_injected")], 1),
        ([entry("fault_injecting"), entry("fault_refused", touched=False)], 0),
        ([entry("fault_injecting"), entry("fault_refused", touched=True)], 1),
        ([entry("fault_injecting"), entry("fault_refused")], 1),
        ([entry("fault_injecting"), entry("fault_undoing")], 1),
        ([entry("fault_injecting"), entry("fault_undoing"), entry("fault_undo_failed")], 1),
        ([entry("fault_injecting"), entry("fault_undoing"), entry("fault_undone")], 0),
        ([entry("fault_injecting"), entry("fault_undone"), entry("fault_continuing")], 1),
        ([entry("fault_injecting"), entry("fault_continuing"), entry("fault_undone")], 0),
    ],
)
def test_a_fault_is_left_over_until_the_journal_says_it_is_gone(
    events: list[JournalEntry], open_faults: int
) -> None:
    assert len(left_over(events)) == open_faults


def test_recover_exits_1_when_something_stays(
    scripted: ModuleType, world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.unload_adapter_status = 500
    (verdict,) = run(scripted, world, "lora-churn")
    assert not verdict.restored
    monkeypatch.setattr(command, "HttpTransport", lambda: world)
    with pytest.raises(SystemExit) as ended:
        cli.main(["chaos", "recover", str(world.folder)])
    assert ended.value.code == 1
    assert "system not restored: the faults of lora-churn were not undone" in capsys.readouterr().err


def test_recover_of_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"journal\.jsonl cannot be read .*; name the folder of a chaos run"):
        recover(tmp_path, None, None)


def test_load_generators_of_a_dead_run_are_ended_and_others_are_not(tmp_path: Path) -> None:
    mine, others = tmp_path / "mine", tmp_path / "others"
    script = "import time; print('up', flush=True); time.sleep(600)"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, "hitcurve", "load", "--out", str(folder)], stdout=subprocess.PIPE
        )
        for folder in (mine, others)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"up\n"
        assert end_orphan_loads(mine) == 1
        assert children[0].wait(10) != 0
        assert children[1].poll() is None
    finally:
        for child in children:
            child.kill()
            child.wait()
            child.stdout.close()
