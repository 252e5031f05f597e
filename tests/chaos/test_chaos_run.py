"""``hitcurve chaos run`` as people and programs call it: what a run prints and leaves."""

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hitcurve_chaos import runner


def test_run_prints_verdicts_writes_junit_and_exits_0(
    run_chaos: Callable[..., int], acted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = tmp_path / "junit.xml"
    assert run_chaos("reset-prefix-cache", "pool-pressure", "--junit", str(junit)) == 0
    shown = capsys.readouterr()
    assert "reset-prefix-cache: ok" in shown.err
    assert "run folder:" in shown.out
    suite = ElementTree.parse(junit).getroot()
    names = [str(case.get("name")) for case in suite]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (str(len(names)), "0", "0")
    assert [name for name in names if "." not in name] == ["reset-prefix-cache", "pool-pressure"]
    # A case for each hypothesis, the worst that a cache can do first.
    assert names[1:5] == [
        "reset-prefix-cache.wrong_outputs",
        "reset-prefix-cache.impossible_hit_tokens",
        "reset-prefix-cache.outputs_compared",
        "reset-prefix-cache.unanswered_checks",
    ]
    assert names[5:10] == [
        "reset-prefix-cache.fall_beyond_noise",
        "reset-prefix-cache.scrapes_to_fall",
        "reset-prefix-cache.scrapes_to_name",
        "reset-prefix-cache.restarts",
        "reset-prefix-cache.recovery_s",
    ]
    run = json.loads((acted.folder / "run.json").read_text())
    assert (run["seed"], run["scenarios"]) == (7, ["reset-prefix-cache", "pool-pressure"])
    assert run["started_at_s"] <= run["finished_at_s"]
    assert run["load"] == [{"name": "background", "profile": "shared-system-prompt", "arguments": {"rate": 5}}]
    assert not list(acted.folder.glob("*.part"))


def test_a_bad_scenario_exits_1_and_is_a_junit_failure(
    run_chaos: Callable[..., int], acted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acted.recovers = False
    junit = tmp_path / "junit.xml"
    assert run_chaos("reset-prefix-cache", "--junit", str(junit)) == 1
    assert "1 of 1 scenarios failed: reset-prefix-cache is bad" in capsys.readouterr().err
    failed = [case for case in ElementTree.parse(junit).getroot() if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == ["reset-prefix-cache", "reset-prefix-cache.recovery_s"]
    failure = failed[0].find("failure")
    assert failure is not None
    assert failure.get("type") == "bad"
    assert "never, expected at most 20" in str(failure.text)


def test_without_traffic_no_data_is_not_ok(
    run_chaos: Callable[..., int], acted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    acted.traffic = False
    assert run_chaos("reset-prefix-cache", "--json") == 1
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["verdict"] == "no_data"


def test_ctrl_c_undoes_keeps_the_verdict_and_exits_130(run_chaos: Callable[..., int], acted: Any) -> None:
    def interrupt(step: str) -> None:
        if step == "sleep" and acted.adapters:
            raise KeyboardInterrupt

    acted.interrupt = interrupt
    assert run_chaos("lora-churn") == 130
    assert (acted.adapters, acted.running) == (set(), {})
    (verdict,) = json.loads((acted.folder / "verdicts.json").read_text())
    assert (verdict["verdict"], verdict["problems"], verdict["restored"]) == ("invalid", ["interrupted"], True)
    assert json.loads((acted.folder / "run.json").read_text())["finished_at_s"] is not None


def test_a_run_that_is_ended_before_its_time_leaves_the_files_of_a_pipeline(
    run_chaos: Callable[..., int], acted: Any, tmp_path: Path
) -> None:
    def interrupt(step: str) -> None:
        if step == "sleep" and acted.adapters:
            raise KeyboardInterrupt

    acted.interrupt = interrupt
    junit, markdown = tmp_path / "junit.xml", tmp_path / "summary.md"
    words = ["reset-prefix-cache", "lora-churn", "--junit", str(junit), "--markdown", str(markdown)]
    assert run_chaos(*words) == 130
    cases = {str(case.get("name")): case for case in ElementTree.parse(junit).getroot()}
    assert cases["reset-prefix-cache"].find("error") is None
    ended = cases["lora-churn"].find("error")
    assert ended is not None
    assert ended.get("message") == "The run ended before its time: interrupted."
    assert "**1 of 2 scenarios are ok**" in markdown.read_text()
    assert "lora-churn" in (acted.folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("recovers", "code", "last"),
    [
        (True, 3, "hitcurve: Grafana refuses the annotation"),
        (False, 1, "hitcurve: 1 of 1 scenarios failed: reset-prefix-cache is bad"),
    ],
)
def test_a_bad_finding_goes_before_a_grafana_that_takes_no_marks(
    run_chaos: Callable[..., int],
    acted: Any,
    capsys: pytest.CaptureFixture[str],
    recovers: bool,
    code: int,
    last: str,
) -> None:
    # The world has no such route and answers 404.
    acted.recovers = recovers
    assert run_chaos("reset-prefix-cache", "--grafana", "http://127.0.0.1:1") == code
    told = capsys.readouterr().err
    assert "Grafana refuses the annotation" in told
    assert told.splitlines()[-1].startswith(last)


def test_junit_may_be_written_into_the_run_folder(run_chaos: Callable[..., int], acted: Any) -> None:
    acted.folder = acted.folder / "new"
    junit = acted.folder / "junit.xml"
    assert run_chaos("reset-prefix-cache", "--junit", str(junit)) == 0
    assert ElementTree.parse(junit).getroot().get("failures") == "0"


@pytest.mark.parametrize("columns", ["20", "1", "80"])
def test_no_figure_of_a_table_is_cut(
    chaos: Callable[..., int],
    run_chaos: Callable[..., int],
    acted: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert run_chaos("reset-prefix-cache") == 0
    shown = capsys.readouterr().out
    (verdict,) = json.loads((acted.folder / "verdicts.json").read_text())
    assert "…" not in shown
    assert set(re.findall(r"\d+\.\d+", verdict["seen"])) <= set(re.findall(r"\d+\.\d+", shown))
    assert chaos("list") == 0
    assert "…" not in capsys.readouterr().out


def test_a_full_disk_is_one_sentence_and_exit_3_and_the_fault_is_undone(
    run_chaos: Callable[..., int], acted: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "verdicts.json.part")

    monkeypatch.setattr(runner, "write_verdicts", full)
    assert run_chaos("lora-churn") == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"hitcurve: {acted.folder} cannot be written (No space left on device), so the run ended there, after "
        f"undoing; make room, and see that nothing is left with 'hitcurve chaos recover {acted.folder}'."
    )
    assert (acted.adapters, acted.running) == (set(), {})
