"""Settings, the way in by --scheduler-cls, waiting for imports, and the file of outcomes."""

import importlib.util
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve_engine import plugin
from hitcurve_engine.probes.import_watch import ImportWatch
from hitcurve_engine.recording.discovery import make_sinks
from hitcurve_engine.recording.outcome_file import create
from hitcurve_engine.recording.sinks import EngineFacts
from hitcurve_engine.settings import Settings, read_settings

FACTS = EngineFacts(block_size=16, pool_blocks=10, groups=1, pid=7, wall_offset_s=0.0)


def test_without_variables_the_defaults_hold() -> None:
    assert read_settings({}) == Settings()


def test_every_variable_is_read() -> None:
    read = read_settings(
        {
            "HITCURVE_ENGINE": "off",
            "HITCURVE_QUEUE_EVENTS": "100",
            "HITCURVE_GHOSTS_PER_BLOCK": "0.5",
            "HITCURVE_ISOLATED": "no",
            "HITCURVE_OUTCOME_FILE": "/tmp/outcomes",
        }
    )
    assert (read.enabled, read.queue_events, read.ghosts_per_block) == (False, 100, 0.5)
    assert (read.isolated, read.outcome_file) == (False, "/tmp/outcomes")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HITCURVE_ENGINE", "perhaps"),
        ("HITCURVE_QUEUE_EVENTS", "0"),
        ("HITCURVE_QUEUE_EVENTS", "many"),
        ("HITCURVE_GHOSTS_PER_BLOCK", "nan"),
    ],
)
def test_a_value_that_cannot_be_read_is_the_default(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert read_settings({name: value}) == Settings()
    assert [name in record.getMessage() for record in caplog.records] == [True]


def test_modules_are_watched_for_without_importing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("watched_here", "watched_later", "not_watched"):
        (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[tuple[str, int]] = []

    def imported(name: str, module: ModuleType) -> None:
        seen.append((name, module.value))

    __import__("watched_here")
    watch = ImportWatch(["watched_here", "watched_later", "never_there"], imported)
    watch.start()
    try:
        assert seen == [("watched_here", 1)]
        assert "watched_later" not in sys.modules
        __import__("not_watched")
        assert importlib.util.find_spec("watched_later") is not None  # asking is not importing
        __import__("watched_later")
        assert seen == [("watched_here", 1), ("watched_later", 1)]
        with pytest.raises(ModuleNotFoundError):
            __import__("never_there")
    finally:
        watch.stop()
        for name in ("watched_here", "watched_later", "not_watched"):
            sys.modules.pop(name, None)
    assert watch not in sys.meta_path


def test_a_sink_that_cannot_be_made_is_reported_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_sinks.py").write_text(
        "def good(facts): return facts\n"
        "def unwanted(facts): return None\n"
        "def bad(facts): raise OSError('planted')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    errors: list[tuple[str, str]] = []
    names = ["some_sinks:bad", "some_sinks:unwanted", "not_there.at_all:create", "some_sinks:good"]
    sinks = make_sinks(FACTS, lambda place, error: errors.append((place, str(error))), names)
    sys.modules.pop("some_sinks")
    assert sinks == [FACTS]
    assert errors == [("some_sinks:bad", "planted")]


def test_outcomes_are_written_as_json_lines(
    start_engine: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HITCURVE_OUTCOME_FILE", str(tmp_path / "outcomes-{pid}.jsonl"))
    sink = create(FACTS)
    assert sink is not None
    engine = start_engine(usable=10, sinks=[sink])
    engine.serve("a", list(range(69)))
    engine.serve("large", list(range(1000, 1160)))
    engine.serve("again", list(range(69)))
    engine.manager.reset_prefix_cache()
    engine.recorder.close()
    lines = [json.loads(line) for line in (tmp_path / "outcomes-7.jsonl").read_text().splitlines()]
    kinds = [line.pop("kind") for line in lines]
    assert kinds == [
        *("engine", "request", "evicted", "request", "evicted"),
        *("regret",) * 4,
        *("request", "reset", "totals"),
    ]
    assert lines[0]["pool_blocks"] == 10
    assert lines[1]["miss_tokens"]["compulsory"] == 64
    assert lines[2]["evictions"][0]["evicted_by"] == "large"
    assert lines[-2]["cleared_blocks"] == 10 - 1
    assert (lines[-1]["totals"]["requests"], lines[-1]["status"]["errors"]) == (3, {})


def test_without_a_name_no_file_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HITCURVE_OUTCOME_FILE", raising=False)
    assert create(FACTS) is None


def test_the_scheduler_module_hooks_in_and_hands_out_vllms_own_class(monkeypatch: pytest.MonkeyPatch) -> None:
    import hitcurve_engine.scheduler

    calls: list[str] = []
    module = ModuleType("vllm.v1.core.sched.scheduler")
    module.Scheduler = type("Scheduler", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm.v1.core.sched.scheduler", module)
    monkeypatch.setattr(hitcurve_engine.scheduler, "register", lambda: calls.append("registered"))
    assert hitcurve_engine.scheduler.Scheduler is module.Scheduler
    assert calls == ["registered"]
    with pytest.raises(AttributeError):
        _ = hitcurve_engine.scheduler.Other


@pytest.mark.parametrize(("own_level", "heard"), [(logging.NOTSET, True), (logging.ERROR, False)])
def test_a_root_logger_of_errors_only_does_not_silence_the_patch(
    monkeypatch: pytest.MonkeyPatch, own_level: int, heard: bool
) -> None:
    monkeypatch.setenv("HITCURVE_METRICS", "off")
    logger, root = logging.getLogger("hitcurve.engine"), logging.getLogger()
    levels = logger.level, root.level
    try:
        logger.setLevel(own_level)
        root.setLevel(logging.ERROR)
        plugin.register()
        assert logger.isEnabledFor(logging.WARNING) is heard
    finally:
        plugin.unregister()
        logger.setLevel(levels[0])
        root.setLevel(levels[1])
