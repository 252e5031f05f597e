"""``LoadProcess``: a load as a child of another program."""

import time
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import EnvironmentFailed
from hitcurve_loadtests.process import LoadProcess


def test_waits_for_the_first_success_and_stops_with_a_summary(
    engine: Any, tmp_path: Path, read_lines: Any
) -> None:
    arguments = ["unique", "--host", engine.url, "--rate", "50", "--duration", "300"]
    with LoadProcess(arguments, out=tmp_path, name="background") as process:
        process.wait_first_success(30)
        assert process.running
        summary = process.stop()
    lines = read_lines(tmp_path / "requests.jsonl")
    assert process.returncode == 0
    assert summary["verdict"] == "ok"
    assert summary["requests"]["ok"] == len(lines) >= 1
    assert {line["load"] for line in lines} == {"background"}


def test_two_loads_append_to_one_folder(engine: Any, tmp_path: Path, read_lines: Any) -> None:
    words = ["--host", engine.url, "--users", "4", "--requests", "150"]
    with (
        LoadProcess(["unique", *words], out=tmp_path, name="one") as one,
        LoadProcess(["shared-system-prompt", *words], out=tmp_path, name="two") as two,
    ):
        summaries = [one.wait(60), two.wait(60)]
    lines = read_lines(tmp_path / "requests.jsonl")
    assert [summary["requests"]["ok"] for summary in summaries] == [150, 150]
    assert sorted(line["load"] for line in lines) == ["one"] * 150 + ["two"] * 150


def test_a_load_that_ends_at_once_says_why(tmp_path: Path) -> None:
    arguments = ["unique", "--host", "http://127.0.0.1:1", "--rate", "5"]
    with LoadProcess(arguments, out=tmp_path, name="lost") as process:
        with pytest.raises(
            EnvironmentFailed, match=r"ended with code 3: .*no engine answers at http://127.0.0.1:1 "
        ):
            process.wait_first_success(30)
        with pytest.raises(EnvironmentFailed, match="left no summary"):
            process.summary()


def test_does_not_take_older_requests_of_the_folder_for_its_own(engine: Any, tmp_path: Path) -> None:
    arguments = ["unique", "--host", engine.url, "--users", "1", "--requests", "3"]
    with LoadProcess(arguments, out=tmp_path, name="again") as first:
        first.wait(30)
    with LoadProcess(["unique", "--host", "http://127.0.0.1:1"], out=tmp_path, name="again") as second:
        with pytest.raises(EnvironmentFailed, match="ended with code 3"):
            second.wait_first_success(30)
        assert not second.summary_path.exists()


def test_what_another_load_left_of_a_line_is_passed_over(engine: Any, tmp_path: Path) -> None:
    arguments = ["unique", "--host", engine.url, "--users", "1", "--requests", "3"]
    load = LoadProcess(arguments, out=tmp_path, name="one")
    (tmp_path / "requests.jsonl").write_text('{"load": "other", "gro\n')
    with load as process:
        process.wait_first_success(30)


def test_a_load_that_only_fails_says_how(engine: Any, answers: Any, tmp_path: Path) -> None:
    engine.answer = lambda exchange: answers([(0.0, b'{"error": {"message": "no model m"}}')], status=404)
    arguments = ["unique", "--host", engine.url, "--users", "1", "--think-time", "0.1", "--duration", "600"]
    with LoadProcess(arguments, out=tmp_path, name="hopeless") as process:
        deadline = time.monotonic() + 60
        while not (process.requests_path.exists() and process.requests_path.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(EnvironmentFailed, match=r"\(the last one failed: HTTP 404: no model m\)"):
            process.wait_first_success(0.0)
