"""``hitcurve chaos recover``: only after a run that is dead, and only from a journal that says what to undo."""

import json
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve import cli
from hitcurve.errors import UsageError
from hitcurve_chaos import command
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.journal import JournalFile, read_journal
from hitcurve_chaos.recover import recover
from hitcurve_chaos.run_lock import LOCK_FILE
from hitcurve_chaos.runner import run_scenarios

SETTINGS = {"baseline": 3, "baseline_within": 20, "hold": 12, "recover_within": 20}
TARGET = {
    "name": "t",
    "engine": "http://127.0.0.1:1",
    "model": "m",
    "allow_chaos": False,
    "admin": {"url": None, "reset_path": "/reset", "api_key_env": None},
}
RECORD = {"fault": "adapter_churn", "prefix": "chaos-1-", "adapters": ["a"]}

HOLDER = """
import sys, time
from pathlib import Path
from hitcurve_chaos.run_lock import held
with held(Path(sys.argv[1]), otherwise="taken"):
    print("held", flush=True)
    time.sleep(600)
"""


def run(scripted: ModuleType, world: Any) -> Any:
    target = scripted.target_at("http://127.0.0.1:1")
    return run_scenarios(target, ["lora-churn"], world.folder, 7, SETTINGS, tools=scripted.tools_of(world))


def line_of(event: str = "fault_injecting", **detail: Any) -> str:
    return json.dumps({"at_s": 1.0, "scenario": "lora-churn", "event": event, "detail": detail}) + "\n"


def test_a_run_that_lives_is_left_alone(scripted: ModuleType, world: Any) -> None:
    refusals: list[str] = []

    def meddle(what: str) -> None:
        if what == "sleep" and world.adapters and not refusals:
            with pytest.raises(UsageError) as told:
                recover(world.folder, world, world)
            refusals.append(str(told.value))
            assert world.adapters

    world.interrupt = meddle
    (verdict,) = run(scripted, world)
    assert verdict.verdict == "ok"
    (refusal,) = refusals
    assert "is still going; end it with Ctrl-C, which undoes its faults" in refusal
    assert recover(world.folder, world, world) == []


def test_two_runs_do_not_share_a_folder(scripted: ModuleType, world: Any) -> None:
    def meddle(what: str) -> None:
        if what == "start background":
            with pytest.raises(UsageError, match="is in use by another run; name a new folder with --out"):
                run(scripted, world)

    world.interrupt = meddle
    (verdict,) = run(scripted, world)
    assert verdict.verdict == "ok"


def test_a_killed_run_frees_its_folder(world: Any) -> None:
    (world.folder / "journal.jsonl").write_text(line_of(record=RECORD, target=TARGET))
    world.adapters.add("chaos-1-1-a")
    command_line = [sys.executable, "-c", HOLDER, str(world.folder)]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match="is still going"):
            recover(world.folder, world, world)
        assert world.adapters == {"chaos-1-1-a"}
        holder.kill()
    (done,) = recover(world.folder, world, world)
    assert (done.undo.restored, world.adapters) == (True, set())


def test_every_further_generation_is_in_the_journal_before_it_is_loaded(scripted: ModuleType, world: Any) -> None:
    journalled: set[str] = set()
    unannounced: list[str] = []

    def look(what: str) -> None:
        if what.endswith("/v1/load_lora_adapter") and (world.folder / "journal.jsonl").exists():
            for entry in read_journal(world.folder):
                journalled.update(entry.detail.get("step", {}).get("adapters", ()))
        unannounced.extend(name for name in world.adapters if "-2-" in name and name not in journalled)

    world.interrupt = look
    run(scripted, world)
    further = [entry for entry in read_journal(world.folder) if entry.event == "fault_continuing"]
    assert [len(entry.detail["step"]["adapters"]) for entry in further] == [2, 2]
    assert further[0].detail["record"]["fault"] == "adapter_churn"
    assert unannounced == []
    assert any("-3-" in name for name in journalled)


@pytest.mark.parametrize(
    ("journal", "line", "says"),
    [
        (line_of(record=5, target=TARGET), 1, "holds no record of a fault"),
        (line_of(), 1, "holds no record of a fault"),
        (line_of(record={}, target=TARGET), 1, "holds no record of a fault"),
        (line_of(record={"fault": "fire"}, target=TARGET), 1, "names the fault 'fire', which this version"),
        (line_of(record={"fault": "adapter_churn"}, target=TARGET), 1, "does not say how the adapters are called"),
        (line_of(record={**RECORD, "prefix": ""}, target=TARGET), 1, "does not say how the adapters are called"),
        (line_of(record=RECORD), 1, "does not say which target 'lora-churn' acted on"),
        (line_of(record=RECORD, target={**TARGET, "engine": 5}), 1, "does not say which target"),
        (line_of(record=RECORD, target={**TARGET, "allow_chaos": "yes"}), 1, "does not say which target"),
        (line_of("scenario_started") + line_of(record=[], target=TARGET), 2, "holds no record of a fault"),
        ("garbage", 1, "is not a journal entry"),
        ("garbage\n", 1, "is not a journal entry"),
        ("{garbage\n", 1, "is not a journal entry"),
        ("[]", 1, "is not a journal entry"),
        ("\x00\x00", 1, "is not a journal entry"),
        (line_of("scenario_started") + '{"a": 1}\n', 2, "is not a journal entry"),
        (line_of("scenario_started") + "5", 2, "is not a journal entry"),
        (line_of("scenario_started").replace("{}", "[]"), 1, "is not a journal entry"),
        (line_of("scenario_started").replace("1.0", '"now"'), 1, "is not a journal entry"),
    ],
)
def test_a_journal_that_does_not_tell_what_to_undo_is_named_with_its_line(
    world: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    journal: str,
    line: int,
    says: str,
) -> None:
    monkeypatch.setattr(command, "HttpTransport", lambda: world)
    path = world.folder / "journal.jsonl"
    path.write_text(journal)
    with pytest.raises(SystemExit) as ended:
        cli.main(["chaos", "recover", str(world.folder)])
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (2, "")
    assert told.err.startswith(f"hitcurve: {path}:{line} ")
    assert says in told.err
    assert path.read_text() == journal
    assert world.calls == []


def test_bytes_that_are_no_text_are_named_with_their_line(world: Any) -> None:
    (world.folder / "journal.jsonl").write_bytes(line_of("scenario_started").encode() + b"\xff\xfe\n")
    with pytest.raises(UsageError, match=r"journal\.jsonl:2 is not a journal entry"):
        recover(world.folder, world, world)


@pytest.mark.parametrize("cut", [1, 5, 9, 40, -1])
def test_what_a_killed_writer_left_of_a_line_is_cut_off(world: Any, cut: int) -> None:
    path = world.folder / "journal.jsonl"
    path.write_text(
        line_of(record=RECORD, target=TARGET) + line_of("fault_injected", sentence="x" * 99)[: cut - 1]
    )
    (done,) = recover(world.folder, world, world)
    assert done.undo.restored
    assert [entry.event for entry in read_journal(world.folder)] == [
        "fault_injecting",
        "fault_undoing",
        "fault_undone",
    ]


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text(line_of("scenario_started").rstrip("\n"))
    JournalFile(tmp_path, SystemClock()).write("lora-churn", "baseline_started")
    assert [entry.event for entry in read_journal(tmp_path)] == ["scenario_started", "baseline_started"]


def test_a_folder_without_a_journal_gets_no_lock(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name the folder of a chaos run"):
        recover(tmp_path, SystemClock(), None)  # type: ignore[arg-type]
    assert not (tmp_path / LOCK_FILE).exists()


def test_a_folder_that_takes_no_files_is_told_before_anything_is_done(scripted: ModuleType, world: Any) -> None:
    world.folder = Path("/proc")
    with pytest.raises(UsageError, match=r"the run folder /proc cannot be written .*; choose another --out"):
        run(scripted, world)
    assert (world.calls, world.started) == ([], [])


@pytest.mark.parametrize(
    ("engine", "machine", "refused"),
    [
        ("http://127.0.0.1:1", "elsewhere", True),
        ("http://127.0.0.1:1", platform.node(), False),
        ("http://127.0.0.1:1", None, False),
        ("http://10.1.2.3:1", "elsewhere", False),
    ],
)
def test_what_a_run_did_to_its_own_machine_is_recovered_there(
    engine: str, machine: str | None, *, refused: bool, tmp_path: Path, world: Any
) -> None:
    """Else this machine's loopback would be found clean, and the fault taken for undone."""
    target = {**TARGET, "engine": engine, "allow_chaos": True}
    path = tmp_path / "journal.jsonl"
    path.write_text(line_of(record=RECORD, target=target, **({"machine": machine} if machine else {})))
    before = path.read_bytes()
    if not refused:
        (done,) = recover(tmp_path, world, world)
        assert done.undo.restored
        return
    with pytest.raises(UsageError) as told:
        recover(tmp_path, world, world)
    assert str(told.value) == (
        f"{path}:1 tells of a fault on the machine 'elsewhere', and this is '{platform.node()}'; recover it there."
    )
    assert path.read_bytes() == before


def test_a_run_notes_its_machine_before_each_fault(scripted: ModuleType, world: Any) -> None:
    run(scripted, world)
    entries = [e for e in read_journal(world.folder) if e.event in ("fault_injecting", "fault_continuing")]
    assert len(entries) > 1
    assert {entry.detail["machine"] for entry in entries} == {platform.node()}
