"""The folder through which an engine's numbers reach its front end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hitcurve_engine.metrics.handoff import HandoffWriter, read_handoff


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


def test_the_last_engine_takes_the_folder_of_a_front_end_that_was_killed_away(tmp_path: Path) -> None:
    for reader, stays in ((os.getpid(), True), (gone_pid(), False)):
        folder = tmp_path / f"hitcurve-{reader}-0123"
        writer = HandoffWriter(folder)
        writer.publish({})
        writer.close()
        assert folder.exists() is stays
