"""``hitcurve chaos`` as people call it: what it tells, and what it refuses before it does anything."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.engine_lock import held_engines
from hitcurve_chaos.reachable import require_answering
from hitcurve_chaos.scenarios.registry import SCENARIOS


def test_list_tells_scenarios_expectations_and_parameters(
    chaos: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert chaos("list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [scenario["name"] for scenario in listed] == list(SCENARIOS)
    assert listed[0]["under_load"] is True
    assert listed[3]["under_load"] is False
    names = [parameter["name"] for parameter in listed[0]["parameters"]]
    assert {"baseline", "hold", "recover_within", "mark", "reset_running_requests"} <= set(names)
    assert chaos("list") == 0
    assert "pool-pressure" in capsys.readouterr().out


def test_a_dry_run_touches_nothing_and_tells_what_would_be_done(
    run_chaos: Callable[..., int], acted: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    before = set(acted.folder.iterdir())
    assert run_chaos("lora-churn", "pause", "--dry-run") == 0
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
    assert run_chaos("lora-churn", "pause", "--dry-run", "--json") == 0
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


def test_a_dry_run_tells_an_address_that_looks_like_markup(
    run_chaos: Callable[..., int],
    targets: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    elsewhere = "engine: http://[fd00::1]:8000\n    allow_chaos: true"
    Path(targets).write_text(Path(targets).read_text().replace("engine: http://127.0.0.1:1", elsewhere))
    assert run_chaos("pause", "--dry-run") == 0
    assert "dry run on 't' at http://[fd00::1]:8000; nothing was touched" in capsys.readouterr().out


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
    run_chaos: Callable[..., int], words: list[str], says: str, acted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(acted.folder.iterdir())
    assert run_chaos(*words) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert acted.calls == []
    assert set(acted.folder.iterdir()) == before


def test_an_engine_elsewhere_is_refused(
    run_chaos: Callable[..., int], acted: Any, targets: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(targets).write_text(
        Path(targets).read_text().replace("engine: http://127.0.0.1:1", "engine: http://10.1.2.3:8000")
    )
    assert run_chaos("lora-churn") == 2
    assert "which is not this machine; add 'allow_chaos: true'" in capsys.readouterr().err
    assert acted.calls == []


def test_a_folder_that_holds_a_run_is_not_written_over(
    run_chaos: Callable[..., int], acted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_chaos("reset-prefix-cache") == 0
    written = (acted.folder / "verdicts.json").read_bytes()
    assert run_chaos("reset-prefix-cache") == 2
    assert "already holds a run; name a new folder with --out" in capsys.readouterr().err
    assert (acted.folder / "verdicts.json").read_bytes() == written


def test_a_load_that_cannot_be_is_refused_even_by_a_dry_run(
    run_chaos: Callable[..., int], acted: Any, targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(targets).write_text(Path(targets).read_text().replace("rate: 5", "ratte: 5"))
    before = set(acted.folder.iterdir())
    assert run_chaos("lora-churn", "--dry-run") == 2
    assert f"{targets}:6: targets[0].load.ratte is not an option" in capsys.readouterr().err
    assert run_chaos("lora-churn") == 2
    assert (acted.calls, set(acted.folder.iterdir())) == ([], before)


def test_asking_whether_files_can_be_written_changes_none(
    chaos: Callable[..., int], targets: str, tmp_path: Path
) -> None:
    junit, markdown = tmp_path / "junit.xml", tmp_path / "summary.md"
    for neighbour in (junit, markdown):
        neighbour.with_name(f"{neighbour.name}.part").write_text("somebody's")
    before = {path: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    files = ("--junit", str(junit), "--markdown", str(markdown))
    assert chaos("run", "pause", "--targets", targets, "--out", str(tmp_path / "out"), *files) == 3
    assert {path: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == before
    markdown.write_text("# Before\n")
    assert chaos("run", "pause", "--targets", targets, "--out", str(tmp_path / "out"), *files) == 3
    assert markdown.read_text() == "# Before\n"


@pytest.mark.parametrize("load", ["", "    load: {profile: unique, rate: 5}\n"])
def test_no_engine_is_exit_3_and_leaves_nothing(
    chaos: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], load: str
) -> None:
    path, out = tmp_path / "targets.yaml", tmp_path / "out"
    path.write_text(f"targets:\n  - name: t\n    engine: http://127.0.0.1:1\n    model: m\n{load}")
    assert chaos("run", "reset-prefix-cache", "--targets", str(path), "--out", str(out)) == 3
    assert capsys.readouterr().err == (
        "hitcurve: no engine answers for target 't' (GET http://127.0.0.1:1/v1/models: Connection refused); "
        "start it, or correct 'engine' in the target file.\n"
    )
    assert not out.exists()


def test_a_model_that_the_engine_does_not_serve_is_told_before_anything_is_done(
    run_chaos: Callable[..., int], acted: Any, targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(targets).write_text(Path(targets).read_text().replace("model: m", "model: llama"))
    assert run_chaos("reset-prefix-cache") == 2
    assert capsys.readouterr().err == (
        "hitcurve: the engine of target 't' serves no model 'llama', only m; correct 'model' in the target file.\n"
    )
    assert [(method, path) for method, path, _ in acted.calls] == [("GET", "/v1/models")]


@pytest.mark.parametrize("answer", ["", "{}", '{"data": []}', '{"data": [5]}', "[]", "<html>"])
def test_an_engine_that_does_not_list_its_models_is_tried(answer: str, acted: Any, scripted: ModuleType) -> None:
    acted.answer = lambda method, path, body: (200, answer)
    require_answering(scripted.target_at("http://127.0.0.1:1"), acted)


def test_a_missing_admin_key_is_told_before_anything_is_done(
    run_chaos: Callable[..., int],
    acted: Any,
    targets: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ADMIN_KEY", raising=False)
    Path(targets).write_text(Path(targets).read_text() + "    admin: {api_key_env: ADMIN_KEY}\n")
    assert run_chaos("lora-churn") == 2
    assert "the environment variable ADMIN_KEY is not set" in capsys.readouterr().err
    assert acted.calls == []


def test_a_folder_that_takes_no_files_is_exit_2(
    chaos: Callable[..., int], acted: Any, targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chaos("run", "reset-prefix-cache", "--targets", targets, "--out", "/proc") == 2
    assert "the run folder /proc cannot be written" in capsys.readouterr().err


def test_a_second_run_on_the_same_engine_is_refused_until_the_first_has_ended(
    run_chaos: Callable[..., int], acted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with held_engines(["http://localhost:1"]):
        assert run_chaos("lora-churn") == 2
    assert capsys.readouterr().err == (
        "hitcurve: another run of hitcurve chaos is using http://127.0.0.1:1; wait until it has ended, "
        "or name another target.\n"
    )
    assert acted.calls == []
    assert run_chaos("reset-prefix-cache") == 0
