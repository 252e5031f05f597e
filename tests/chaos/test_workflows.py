"""The workflows: valid by GitHub's schema, pinned, never on forks with our own runner, artefacts always."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hitcurve_chaos.suite import SUITES
from hitcurve_chaos.targets import load_targets

WORKFLOWS = ("checks", "nightly", "release")


def workflow(repository: Path, name: str) -> dict[str, Any]:
    text = (repository / ".github" / "workflows" / f"{name}.yml").read_text()
    # YAML 1.1 reads the key 'on' as true.
    loaded: dict[Any, Any] = yaml.safe_load(text)
    return {("on" if key is True else key): value for key, value in loaded.items()}


def steps(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in found["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_the_schema_of_github_workflows_holds(name: str, repository: Path) -> None:
    pytest.importorskip(
        "check_jsonschema", reason="check-jsonschema is not installed; it comes with hitcurve[dev]"
    )
    file = repository / ".github" / "workflows" / f"{name}.yml"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_jobs_end_and_tokens_can_only_read(name: str, repository: Path) -> None:
    found = workflow(repository, name)
    assert found["permissions"] == {"contents": "read"}
    for step in steps(found):
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False
    assert all(isinstance(job["timeout-minutes"], int) for job in found["jobs"].values())


def test_nothing_of_a_fork_runs_on_our_own_machine(repository: Path) -> None:
    found = workflow(repository, "nightly")
    assert set(found["on"]) == {"schedule", "workflow_dispatch"}
    (job,) = found["jobs"].values()
    assert job["runs-on"] == ["self-hosted", "linux", "gpu"]
    assert job["if"] == "vars.GPU_RUNNER == 'yes'", "forks inherit no variables"
    assert found["concurrency"]["cancel-in-progress"] is False, "a cancelled night leaves the stack running"
    assert "self-hosted" not in (repository / ".github" / "workflows" / "checks.yml").read_text()


def test_a_night_leaves_its_artefacts_and_no_stack_whatever_happens(repository: Path) -> None:
    found = workflow(repository, "nightly")
    *_, keep, end = steps(found)
    assert keep["uses"].startswith("actions/upload-artifact@")
    assert (keep["if"], end["if"]) == ("always()", "always()")
    assert " down " in end["run"]
    order = [step.get("name") for step in steps(found)]
    assert order.index("Leave nothing of a night that died") < order.index("Start the stack")
    assert order.index("Run the suite") < order.index("Undo what a dead run has left")
    assert found["on"]["workflow_dispatch"]["inputs"]["suite"]["options"] == sorted(
        SUITES, key=("nightly", "smoke", "soak").index
    )


def words_of_the_suite(suite: dict[str, Any], folder: Path, ip: str = "exit 1", **given: str) -> list[str]:
    """What a night asks ``hitcurve`` for; ``ip`` is what the program of that name does."""
    programs = {folder / ".venv" / "bin" / "hitcurve": 'printf "%s\\n" "$@"', folder / "ip": ip}
    for program, does in programs.items():
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    values = {"SUITE": "smoke", "SEED": "", "GRAFANA_URL": "", "GITHUB_STEP_SUMMARY": "summary.md"} | given
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", suite["run"]],
        cwd=folder,
        env=os.environ | values | {"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def test_faults_are_marked_in_a_grafana_only_where_one_is_given(repository: Path, tmp_path: Path) -> None:
    """The stack's own lets nobody write, so that a night without another one would always end with exit code 3."""
    (suite,) = [step for step in steps(workflow(repository, "nightly")) if step.get("id") == "suite"]
    assert suite["env"]["GRAFANA_URL"] == "${{ vars.GRAFANA_URL }}"
    for grafana, asked in (("", False), ("https://grafana.example.org", True)):
        words = words_of_the_suite(suite, tmp_path, GRAFANA_URL=grafana)
        assert words[:3] == ["chaos", "run", "smoke"]
        assert ("--grafana" in words, grafana in words) == (asked, asked)
        assert "--seed" not in words


@pytest.mark.parametrize(
    ("told", "listens"),
    [
        ("echo '5: docker0    inet 172.17.0.1/16 brd 172.17.255.255 scope global docker0'", "172.17.0.1:9478"),
        ("echo 'Device \"docker0\" does not exist.' >&2; exit 1", "127.0.0.1:9478"),
    ],
)
def test_a_night_tells_its_scenario_at_dockers_bridge_or_else_to_nobody(
    told: str, listens: str, repository: Path, tmp_path: Path
) -> None:
    (suite,) = [step for step in steps(workflow(repository, "nightly")) if step.get("id") == "suite"]
    words = words_of_the_suite(suite, tmp_path, ip=told)
    assert words[words.index("--metrics-listen") + 1] == listens


def test_text_of_whoever_starts_it_reaches_the_shell_as_a_variable_only(repository: Path) -> None:
    for name in WORKFLOWS:
        for step in steps(workflow(repository, name)):
            assert "${{" not in step.get("run", "")


def test_the_files_that_the_workflows_name_are_there_and_read(repository: Path) -> None:
    text = "".join((repository / ".github" / "workflows" / f"{name}.yml").read_text() for name in WORKFLOWS)
    named = set(re.findall(r"(?:--targets |:)(chaos/[\w./-]+\.yaml)", text))
    assert named == {
        "chaos/targets.simulated.yaml",
        "chaos/compose/nightly.targets.yaml",
        "chaos/compose/nightly.yaml",
    }
    for file in (
        "chaos/targets.simulated.yaml",
        "chaos/targets.vllm-cpu.yaml",
        "chaos/compose/nightly.targets.yaml",
    ):
        assert load_targets(repository / file)
    layer = yaml.safe_load((repository / "chaos" / "compose" / "nightly.yaml").read_text())
    assert layer["services"]["vllm"]["labels"] == {"hitcurve.chaos": "allow"}
    (target,) = load_targets(repository / "chaos/compose/nightly.targets.yaml")
    assert f"--served-model-name={target.model}" in layer["services"]["vllm"]["command"]
