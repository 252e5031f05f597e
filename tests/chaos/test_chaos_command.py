"""``hitcurve chaos`` as people and programs call it."""

import errno
import json
import os
import re
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from hitcurve import cli
from hitcurve_chaos import carry_out, command, runner
from hitcurve_chaos.engine_lock import held_engines
from hitcurve_chaos.runner import run_planned
from hitcurve_chaos.scenarios.registry import SCENARIOS

TARGETS = """\
targets:
  - name: t
    engine: http://127.0.0.1:1
    model: m
    exporter: http://127.0.0.1:1
    load: {profile: shared-system-prompt, rate: 5}
"""


@pytest.fixture
def targets(tmp_path: Path) -> str:
    path = tmp_path / "targets.yaml"
    path.write_text(TARGETS)
    return str(path)


@pytest.fixture
def acted(scripted: ModuleType, world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The world, in which ``hitcurve chaos run`` acts."""
    tools = scripted.tools_of(world)
    monkeypatch.setattr(carry_out, "run_planned", partial(run_planned, tools=tools))
    for module in (carry_out, command):
        monkeypatch.setattr(module, "HttpTransport", lambda: world)
    return world


def chaos(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["chaos", *words])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def quick(world: Any, targets: str, *words: str) -> list[str]:
    times = ["--baseline", "5s", "--hold", "6s", "--recover-within", "20s", "--seed", "7"]
    return ["run", "--targets", targets, "--out", str(world.folder), *times, *words]


def test_list_tells_scenarios_expectations_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos("list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [scenario["name"] for scenario in listed] == list(SCENARIOS)
    assert listed[0]["under_load"] is True
    assert listed[3]["under_load"] is False
    names = [parameter["name"] for parameter in listed[0]["parameters"]]
    assert {"baseline", "hold", "recover_within", "mark", "reset_running_requests"} <= set(names)
    assert chaos("list") == 0
    assert "pool-pressure" in capsys.readouterr().out


def test_run_prints_verdicts_writes_junit_and_exits_0(
    acted: Any, targets: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = tmp_path / "junit.xml"
    assert chaos(*quick(acted, targets, "reset-prefix-cache", "pool-pressure"), "--junit", str(junit)) == 0
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
    acted: Any, targets: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acted.recovers = False
    junit = tmp_path / "junit.xml"
    assert chaos(*quick(acted, targets, "reset-prefix-cache"), "--junit", str(junit)) == 1
    assert "1 of 1 scenarios failed: reset-prefix-cache is bad" in capsys.readouterr().err
    failed = [case for case in ElementTree.parse(junit).getroot() if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == ["reset-prefix-cache", "reset-prefix-cache.recovery_s"]
    failure = failed[0].find("failure")
    assert failure is not None
    assert failure.get("type") == "bad"
    assert "never, expected at most 20" in str(failure.text)


def test_without_traffic_no_data_is_not_ok(acted: Any, targets: str, capsys: pytest.CaptureFixture[str]) -> None:
    acted.traffic = False
    assert chaos(*quick(acted, targets, "reset-prefix-cache"), "--json") == 1
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["verdict"] == "no_data"


def test_ctrl_c_undoes_keeps_the_verdict_and_exits_130(acted: Any, targets: str) -> None:
    def interrupt(step: str) -> None:
        if step == "sleep" and acted.adapters:
            raise KeyboardInterrupt

    acted.interrupt = interrupt
    assert chaos(*quick(acted, targets, "lora-churn")) == 130
    assert (acted.adapters, acted.running) == (set(), {})
    (verdict,) = json.loads((acted.folder / "verdicts.json").read_text())
    assert (verdict["verdict"], verdict["problems"], verdict["restored"]) == ("invalid", ["interrupted"], True)
    assert json.loads((acted.folder / "run.json").read_text())["finished_at_s"] is not None


def test_a_run_that_is_ended_before_its_time_leaves_the_files_of_a_pipeline(
    acted: Any, targets: str, tmp_path: Path
) -> None:
    def interrupt(step: str) -> None:
        if step == "sleep" and acted.adapters:
            raise KeyboardInterrupt

    acted.interrupt = interrupt
    junit, markdown = tmp_path / "junit.xml", tmp_path / "summary.md"
    words = ["reset-prefix-cache", "lora-churn", "--junit", str(junit), "--markdown", str(markdown)]
    assert chaos(*quick(acted, targets, *words)) == 130
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
    acted: Any, targets: str, capsys: pytest.CaptureFixture[str], recovers: bool, code: int, last: str
) -> None:
    # The world has no such route and answers 404.
    acted.recovers = recovers
    assert chaos(*quick(acted, targets, "reset-prefix-cache"), "--grafana", "http://127.0.0.1:1") == code
    told = capsys.readouterr().err
    assert "Grafana refuses the annotation" in told
    assert told.splitlines()[-1].startswith(last)


def test_a_dry_run_touches_nothing_and_tells_what_would_be_done(
    acted: Any, targets: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    before = set(acted.folder.iterdir())
    assert chaos(*quick(acted, targets, "lora-churn", "pause"), "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "nothing was touched" in shown
    for name, begin, end in (
        (
            "lora-churn",
            "Under the load shared-system-prompt, once the curve is steady for 5 s.",
            "Lasts 6 s; steady again within 20 s.",
        ),
        ("pause", "Without a load, once the engine is idle.", "A request is completed within 20 s."),
    ):
        story = SCENARIOS[name].story
        assert f"{begin} {story.fault} {end}" in shown
        assert story.rollback in shown
        assert story.safety in shown
    assert chaos(*quick(acted, targets, "lora-churn", "pause"), "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["target"], plan["engine"], plan["seed"]) == ("t", "http://127.0.0.1:1", 7)
    assert [(one["scenario"], one["under_load"]) for one in plan["scenarios"]] == [
        ("lora-churn", True),
        ("pause", False),
    ]
    assert plan["scenarios"][0]["settings"]["hold"] == 6.0
    assert plan["scenarios"][1]["needs"] == ["token_ids", "cached_tokens", "pause"]
    assert acted.calls == []
    assert set(acted.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["reset-prefx-cache"], "there is no scenario 'reset-prefx-cache'; did you mean 'reset-prefix-cache'?"),
        (["nigthly"], "there is no scenario or suite 'nigthly'; did you mean the suite 'nightly'?"),
        (
            ["lora-churn", "--grafana", "ftp://g"],
            "--grafana: 'ftp://g' is not an address; write http://HOST:PORT.",
        ),
        (["lora-churn", "--grafana", "http://me:secret@g"], "--grafana: an address holds a user name or password"),
        (["lora-churn", "--junit", "/proc/x"], "/proc/x cannot be written"),
        (["lora-churn", "--markdown", "/proc/x.md"], "name another file with --markdown."),
        (["lora-churn", "--set", "perod=1s"], "there is no scenario parameter 'perod'"),
        (["lora-churn", "--set", "period"], "--set period is not NAME=VALUE"),
        (["lora-churn", "--hold", "long"], "the scenario parameter 'hold' cannot be 'long'"),
        (["lora-churn", "--hold", "9999999999999999h"], "cannot be '9999999999999999h'; give at most 168h"),
        (
            ["lora-churn", "--baseline", "5m"],
            "nothing can be steady for 300 s within 120 s; raise --baseline-within",
        ),
        (["lora-churn", "--junit", "/no/such/junit.xml"], "/no/such/junit.xml cannot be written (No such file"),
        (["lora-churn", "--junit", "/tmp"], "/tmp cannot be written (Is a directory); name another file"),
        (["lora-churn", "--target", "other"], "there is no target 'other' in the target file"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(
    words: list[str], says: str, acted: Any, targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(acted.folder.iterdir())
    assert chaos(*quick(acted, targets, *words)) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert acted.calls == []
    assert set(acted.folder.iterdir()) == before


def test_an_engine_elsewhere_is_refused(
    acted: Any, targets: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(targets).write_text(TARGETS.replace("engine: http://127.0.0.1:1", "engine: http://10.1.2.3:8000"))
    assert chaos(*quick(acted, targets, "lora-churn")) == 2
    assert "which is not this machine; add 'allow_chaos: true'" in capsys.readouterr().err
    assert acted.calls == []


def test_a_folder_that_holds_a_run_is_not_written_over(
    acted: Any, targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chaos(*quick(acted, targets, "reset-prefix-cache")) == 0
    written = (acted.folder / "verdicts.json").read_bytes()
    assert chaos(*quick(acted, targets, "reset-prefix-cache")) == 2
    assert "already holds a run; name a new folder with --out" in capsys.readouterr().err
    assert (acted.folder / "verdicts.json").read_bytes() == written


def test_a_load_that_cannot_be_is_refused_even_by_a_dry_run(
    acted: Any, targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(targets).write_text(TARGETS.replace("rate: 5", "ratte: 5"))
    before = set(acted.folder.iterdir())
    assert chaos(*quick(acted, targets, "lora-churn"), "--dry-run") == 2
    assert f"{targets}:6: targets[0].load.ratte is not an option" in capsys.readouterr().err
    assert chaos(*quick(acted, targets, "lora-churn")) == 2
    assert (acted.calls, set(acted.folder.iterdir())) == ([], before)


@pytest.mark.parametrize("load", ["", "    load: {profile: unique, rate: 5}\n"])
def test_no_engine_is_exit_3_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], load: str
) -> None:
    path, out = tmp_path / "targets.yaml", tmp_path / "out"
    path.write_text(f"targets:\n  - name: t\n    engine: http://127.0.0.1:1\n    model: m\n{load}")
    assert chaos("run", "reset-prefix-cache", "--targets", str(path), "--out", str(out)) == 3
    assert capsys.readouterr().err == (
        "hitcurve: no engine answers for target 't' (GET http://127.0.0.1:1/v1/models: Connection refused); "
        "start it, or correct 'engine' in the target file.\n"
    )
    assert not out.exists()


def test_a_missing_admin_key_is_told_before_anything_is_done(
    acted: Any, targets: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADMIN_KEY", raising=False)
    Path(targets).write_text(TARGETS + "    admin: {api_key_env: ADMIN_KEY}\n")
    assert chaos(*quick(acted, targets, "lora-churn")) == 2
    assert "the environment variable ADMIN_KEY is not set" in capsys.readouterr().err
    assert acted.calls == []


def test_junit_may_be_written_into_the_run_folder(acted: Any, targets: str) -> None:
    acted.folder = acted.folder / "new"
    junit = acted.folder / "junit.xml"
    assert chaos(*quick(acted, targets, "reset-prefix-cache"), "--junit", str(junit)) == 0
    assert ElementTree.parse(junit).getroot().get("failures") == "0"


def test_a_folder_that_takes_no_files_is_exit_2(
    acted: Any, targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = quick(acted, targets, "reset-prefix-cache")
    words[words.index("--out") + 1] = "/proc"
    assert chaos(*words) == 2
    assert "the run folder /proc cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["20", "1", "80"])
def test_no_figure_of_a_table_is_cut(
    acted: Any,
    targets: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert chaos(*quick(acted, targets, "reset-prefix-cache")) == 0
    shown = capsys.readouterr().out
    (verdict,) = json.loads((acted.folder / "verdicts.json").read_text())
    assert "…" not in shown
    assert set(re.findall(r"\d+\.\d+", verdict["seen"])) <= set(re.findall(r"\d+\.\d+", shown))
    assert chaos("list") == 0
    assert "…" not in capsys.readouterr().out


def test_a_full_disk_is_one_sentence_and_exit_3_and_the_fault_is_undone(
    acted: Any, targets: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "verdicts.json.part")

    monkeypatch.setattr(runner, "write_verdicts", full)
    assert chaos(*quick(acted, targets, "lora-churn")) == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"hitcurve: {acted.folder} cannot be written (No space left on device), so the run ended there, after "
        f"undoing; make room, and see that nothing is left with 'hitcurve chaos recover {acted.folder}'."
    )
    assert (acted.adapters, acted.running) == (set(), {})


def test_a_second_run_on_the_same_engine_is_refused_until_the_first_has_ended(
    acted: Any, targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with held_engines(["http://localhost:1"]):
        assert chaos(*quick(acted, targets, "lora-churn")) == 2
    assert capsys.readouterr().err == (
        "hitcurve: another run of hitcurve chaos is using http://127.0.0.1:1; wait until it has ended, "
        "or name another target.\n"
    )
    assert acted.calls == []
    assert chaos(*quick(acted, targets, "reset-prefix-cache")) == 0
