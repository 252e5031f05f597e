"""Scenarios as tests: the marker and the fixtures, in a pytest of their own."""

import subprocess
import sys
from pathlib import Path

TARGETS = """\
targets:
- name: own
  start: {pool_blocks: 512, options: [--max-model-len, "2048", --speed, "10"]}
"""
TESTS = """\
import pytest
from dataclasses import replace
from hitcurve_chaos.hypothesis import AtMost, Expectation
from hitcurve_chaos.scenarios.registry import SCENARIOS

OWN = replace(
    SCENARIOS["counters-honest"],
    name="own",
    expectations=lambda settings: [Expectation("cached_tokens", "cached tokens", AtMost(0))],
)

@pytest.mark.chaos("counters-honest", recover_within="20s")
def test_named(chaos_verdict, record_property):
    assert chaos_verdict.verdict == "ok", chaos_verdict.problems

@pytest.mark.chaos(OWN)
def test_of_our_own(chaos_verdict):
    assert chaos_verdict.verdict == "bad"
    assert chaos_verdict.problems[0].startswith("cached tokens: ")

@pytest.mark.chaos("core-kill")
def test_that_cannot_run(chaos_verdict):
    raise AssertionError("unreachable")
"""


def run(folder: Path, *words: str) -> str:
    (folder / "conftest.py").write_text('pytest_plugins = ["hitcurve_chaos.pytest_plugin"]\n')
    (folder / "targets.yaml").write_text(TARGETS)
    (folder / "test_cache.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-rs", "-q", "-p", "no:locust", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def test_marked_tests_run_their_scenario_and_skip_what_cannot_run(tmp_path: Path) -> None:
    shown = run(tmp_path, "--chaos-targets", "targets.yaml", "--junitxml", "junit.xml", "--strict-markers")
    assert "2 passed, 1 skipped" in shown, shown
    assert "core-kill: nothing can kill the core of this engine" in shown
    assert 'name="queries_off" value="0' in (tmp_path / "junit.xml").read_text()


def test_without_a_target_file_they_are_skipped(tmp_path: Path) -> None:
    shown = run(tmp_path)
    assert "3 skipped" in shown, shown
    assert "no chaos target; name a target file with --chaos-targets" in shown
