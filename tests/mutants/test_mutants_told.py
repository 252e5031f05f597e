"""What docs/mutants.* tell: every planted defect is caught by a scenario of the nightly suite."""

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from hitcurve_chaos.suite import find_suite
from hitcurve_simulator.server.faults import FAULTS


@pytest.fixture
def nightly() -> set[str]:
    return {entry.scenario for entry in find_suite(["nightly"]).scenarios}


@pytest.fixture
def runner() -> ModuleType:
    """The program behind ``make mutants``."""
    spec = importlib.util.spec_from_file_location("mutants_run", Path(__file__).with_name("run.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def told(repository: Path, name: str) -> Mapping[str, Sequence[str]]:
    mutants: Mapping[str, Sequence[str]] = json.loads((repository / "docs" / name).read_text())["mutants"]
    return mutants


def test_every_defect_of_the_simulated_engine_is_caught_by_nightly(repository: Path, nightly: set[str]) -> None:
    mutants = told(repository, "mutants.json")
    assert list(mutants) == list(FAULTS)
    assert [name for name, catchers in mutants.items() if not set(catchers) & nightly] == []


def test_at_least_ten_defects_of_a_real_vllm_are_caught_by_nightly(repository: Path, nightly: set[str]) -> None:
    mutants = told(repository, "mutants_vllm.json")
    assert len(mutants) >= 10
    assert [name for name, catchers in mutants.items() if not set(catchers) & nightly] == []


def test_the_table_for_people_says_what_the_figures_for_programs_do(repository: Path, runner: ModuleType) -> None:
    mutants = told(repository, "mutants.json")
    table = (repository / "docs" / "mutants.md").read_text()
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert [row[0].strip("| `") for row in rows] == list(mutants)
    for (_, defect, catchers), (name, caught) in zip(rows, mutants.items(), strict=True):
        assert defect == FAULTS[name].defect
        links = [f"[{one}](scenarios/{one}.md)" for one in caught]
        assert catchers.removesuffix(" |").split(", ") == links


def test_what_the_mutants_are_judged_by_is_in_nightly(runner: ModuleType, nightly: set[str]) -> None:
    assert set(runner.SCENARIOS) <= nightly
