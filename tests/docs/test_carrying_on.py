"""What whoever carries the project on relies on: the release, the checks on commit, the map of CONTRIBUTING.md."""

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

import hitcurve

PACKAGE_FOLDERS = (
    "",
    "chaos/hitcurve_chaos",
    "dashboards/hitcurve_dashboards",
    "engine_patch/hitcurve_engine",
    "exporter/hitcurve_exporter",
    "hitcurve",
    "loadtests/hitcurve_loadtests",
    "simulator/hitcurve_simulator",
    "tests",
)
PATH = re.compile(r"`((?:[\w.-]+/)+|(?:[\w.-]+/)*[\w.-]+\.(?:py|md|ya?ml))`")
MADE_UP = re.compile(r"\bNAME\b")


def release(repository: Path) -> dict[str, Any]:
    loaded = yaml.safe_load((repository / ".github/workflows/release.yml").read_text())
    # YAML 1.1 reads the key 'on' as true.
    return {("on" if key is True else key): value for key, value in loaded.items()}


def test_a_release_is_a_tag_on_our_own_repository_and_stores_no_token(repository: Path) -> None:
    found = release(repository)
    assert found["on"] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}
    build, publish = found["jobs"]["build"], found["jobs"]["publish"]
    assert build["if"] == publish["if"] == "vars.RELEASE == 'yes'", "forks inherit no variables"
    assert (publish["needs"], publish["environment"]) == ("build", "pypi")
    assert publish["permissions"] == {"id-token": "write"}
    assert "permissions" not in build, "what runs the sources can publish nothing"
    assert all("run" not in step for step in publish["steps"])
    assert "secrets." not in (repository / ".github/workflows/release.yml").read_text()


def test_the_release_finds_version_and_changelog(repository: Path, tmp_path: Path) -> None:
    (check,) = [
        step for step in release(repository)["jobs"]["build"]["steps"] if "changelog" in step.get("name", "")
    ]
    (tmp_path / "hitcurve").mkdir()
    (tmp_path / "hitcurve/__init__.py").write_text((repository / "hitcurve/__init__.py").read_text())

    def run(tag: str, changelog: str) -> int:
        (tmp_path / "CHANGELOG.md").write_text(changelog)
        environment = {"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin"}
        return subprocess.run(["bash", "-e", "-c", check["run"]], cwd=tmp_path, env=environment).returncode

    version = hitcurve.__version__
    assert run(f"v{version}", f"# Changelog\n\n## {version} (2026-12-01)\n") == 0
    assert run(f"v{version}", "# Changelog\n\n## Unreleased\n") != 0
    assert run("v99.0.0", f"## {version} (2026-12-01)\n") != 0


def test_the_checks_on_commit_are_those_of_make_lint(repository: Path) -> None:
    (local,) = yaml.safe_load((repository / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    entries = {hook["id"]: hook["entry"].split() for hook in local["hooks"]}
    for entry in entries.values():
        assert (repository / entry[0]).is_file(), entry
    lint = (repository / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for name, words in (("ruff-check", "ruff check"), ("ruff-format", "ruff format"), ("mypy", "mypy")):
        assert words in lint
        assert " ".join(entries[name]).startswith(f".venv/bin/{words}")


def test_every_file_that_contributing_names_is_there(repository: Path) -> None:
    text = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {path for path in PATH.findall(text) if not MADE_UP.search(path)}
    beside = [repository / "tests/real_vllm/compat", repository / "chaos/hitcurve_chaos/scenarios"]
    folders = [*(repository / folder for folder in PACKAGE_FOLDERS), *beside]
    assert len(named) > 40
    assert [path for path in sorted(named) if not any((folder / path).exists() for folder in folders)] == []
