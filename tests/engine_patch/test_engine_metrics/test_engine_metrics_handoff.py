"""The folder through which an engine's numbers reach its front end."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hitcurve_engine.metrics.handoff import HandoffWriter, read_handoff

CHOOSING = "from hitcurve_engine.metrics.handoff import new_handoff_folder; print(new_handoff_folder())"
CAPTURED: dict[str, Any] = {"check": True, "capture_output": True, "text": True, "timeout": 60}


def gone_pid() -> int:
    """Of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(30)
    return done.pid


def test_a_file_of_a_dead_engine_is_removed_and_rubbish_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "handoff"
    HandoffWriter(folder).publish({"hitcurve_engine_active": [[["0", "tiny"], 1]]})
    (folder / "1.json").write_text(json.dumps({"pid": gone_pid(), "families": {}}))
    (folder / "2.json").write_text("{")
    (folder / "3.new").write_text("unfinished")
    assert list(read_handoff(folder)) == [{"hitcurve_engine_active": [[["0", "tiny"], 1]]}]
    assert not (folder / "1.json").exists()


def test_nothing_is_read_from_or_written_to_a_folder_that_others_may_write(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "1.json").write_text(json.dumps({"pid": os.getpid(), "families": {}}))
    assert list(read_handoff(folder)) == []
    with pytest.raises(PermissionError):
        HandoffWriter(folder)
    assert list(read_handoff(tmp_path / "missing")) == []


def test_an_engine_that_outlives_its_front_end_makes_no_folder_again(tmp_path: Path) -> None:
    folder = tmp_path / "handoff"
    writer = HandoffWriter(folder)
    folder.rmdir()
    writer.publish({})
    assert not folder.exists()


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("hitcurve-{dead}-0123456789abcdef", False),
        ("hitcurve-{own}-0123456789abcdef", True),
        ("{dead}-results", True),
        ("hitcurve-{dead}", True),
        ("hitcurve-{dead}-notes", True),
        ("hitcurve-99999999999999999999-0123456789abcdef", True),
    ],
)
def test_the_folder_of_a_front_end_that_was_killed_goes_and_no_other_one(
    tmp_path: Path, name: str, stays: bool
) -> None:
    folder = tmp_path / name.format(dead=gone_pid(), own=os.getpid())
    writer = HandoffWriter(folder)
    writer.publish({})
    writer.close()
    assert folder.exists() is stays


def test_the_name_that_a_front_end_chooses_is_one_that_goes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHOOSING], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, **CAPTURED
    )
    folder = Path(done.stdout.strip())
    HandoffWriter(folder).close()
    assert not folder.exists()


def test_a_folder_that_is_taken_away_while_an_engine_writes_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "handoff"
    writer = HandoffWriter(folder)
    replace = os.replace

    def late(*arguments: Any) -> None:
        shutil.rmtree(folder)
        replace(*arguments)

    monkeypatch.setattr(os, "replace", late)
    writer.publish({})
    assert not folder.exists()
