"""The start of the process that replays, whatever the engine's process is like."""

import logging
import os
import resource
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
