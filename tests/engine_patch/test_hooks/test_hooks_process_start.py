"""The start of the process that replays, whatever the engine's process is like."""

import json
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]
SHARED = list(range(69))
PATIENCE_S = 60.0


def test_an_engine_with_more_than_a_thousand_open_files_has_a_process_too(
    start_engine: Start, outcomes: Any
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if 0 <= soft < 2048 else soft, hard))
    files = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while files[-1] < 1024:
            files.append(os.open(os.devnull, os.O_RDONLY))
        engine = start_engine(usual_sinks=True)
        engine.serve("first", SHARED)
        assert engine.recorder.flush(PATIENCE_S)
        assert engine.recorder._process._outof > 1024
        engine.recorder.close(PATIENCE_S)
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert engine.switch.active
    assert [request["request_id"] for request in outcomes("request")] == ["first"]


def test_nothing_in_the_working_directory_takes_the_place_of_a_module(
    start_engine: Start, outcomes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("logging", "json", "hitcurve_engine"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit(7)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [tmp_path / "no text, which imports pass over", *sys.path])
    engine = start_engine(usual_sinks=True)
    engine.serve("first", SHARED)
    assert engine.recorder.flush(PATIENCE_S)
    engine.recorder.close(PATIENCE_S)
    assert [request["request_id"] for request in outcomes("request")] == ["first"]


def test_where_no_process_can_be_started_a_thread_records(
    start_engine: Start, outcomes: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    engine = start_engine(usual_sinks=True)
    with caplog.at_level(logging.WARNING):
        engine.serve("first", SHARED)
        assert engine.recorder.flush(PATIENCE_S)
    engine.recorder.close(PATIENCE_S)
    assert [request["request_id"] for request in outcomes("request")] == ["first"]
    assert [record.getMessage().split(" (")[0] for record in caplog.records] == [
        "hitcurve: no process of its own for the engine patch, a thread records"
    ]


FORK_DURING_THE_START = """
import json, os, subprocess, threading
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.recording.recorder import Recorder
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

starting, forked = threading.Event(), threading.Event()

class Popen(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        starting.set()
        forked.wait(0.5)

def links(numbers):
    return [os.readlink(f"/proc/self/fd/{n}") for n in numbers if os.path.lexists(f"/proc/self/fd/{n}")]

subprocess.Popen = Popen
recorder = Recorder(CacheShape(16, 16, 0, 1, True, 24, 0), Settings(), Switch())
os.register_at_fork(after_in_parent=forked.set)
recorder.start()
starting.wait()
child = os.fork()
if child == 0:
    print(json.dumps(links(os.listdir("/proc/self/fd"))), flush=True)
    os._exit(0)
os.waitpid(child, 0)
assert recorder.flush(60)
print(json.dumps(links((recorder._process._into, recorder._process._outof))))
recorder.close()
"""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed in /proc")
def test_a_child_forked_during_the_start_keeps_no_pipe_of_the_process() -> None:
    """Else the process would not see the end of an engine that is killed while such a child lives."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_DURING_THE_START], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    in_child, of_process = map(json.loads, done.stdout.splitlines())
    assert len(of_process) == 2
    assert not set(of_process) & set(in_child)
