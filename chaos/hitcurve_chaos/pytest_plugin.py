"""Scenarios as tests of your own: a marker and two fixtures.

In ``conftest.py``: ``pytest_plugins = ["hitcurve_chaos.pytest_plugin"]``; in a test::

    @pytest.mark.chaos("reset-idle", recover_within="30s")   # or a Scenario record of your own
    def test_a_reset_clears_everything(chaos_verdict):
        assert chaos_verdict.verdict == "ok", chaos_verdict.problems

and on the command line ``pytest --chaos-targets targets.yaml``. A scenario that cannot run on the target skips the
test with the reason; without a target file all such tests are skipped.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hitcurve_chaos.opened import Drivers, opened
from hitcurve_chaos.parameters import Settings, resolve
from hitcurve_chaos.plan import plan
from hitcurve_chaos.runner import run_planned
from hitcurve_chaos.scenarios.scenario import Scenario
from hitcurve_chaos.targets import Target, choose_target, load_targets, require_allowed
from hitcurve_chaos.verdict import Verdict

__all__ = ["chaos_engine", "chaos_verdict"]

_SEED_VARIABLE = "HITCURVE_CHAOS_SEED"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hitcurve chaos")
    group.addoption("--chaos-targets", type=Path, help="target file (YAML): the only engines that may be touched")
    group.addoption("--chaos-target", help="which target, where the file lists several")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chaos(scenario, **settings): run a chaos scenario for 'chaos_verdict'")


@pytest.fixture(scope="session")
def chaos_engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Target, Drivers]]:
    """The target of ``--chaos-targets``, its own engines started, with its drivers; for the whole session."""
    file = request.config.getoption("--chaos-targets")
    if file is None:
        pytest.skip("no chaos target; name a target file with --chaos-targets")
    target = choose_target(load_targets(file), request.config.getoption("--chaos-target"))
    require_allowed(target)
    with opened(target, tmp_path_factory.mktemp("chaos-engines")) as ready:
        yield ready


@pytest.fixture
def chaos_verdict(request: pytest.FixtureRequest, chaos_engine: tuple[Target, Drivers], tmp_path: Path) -> Verdict:
    """The verdict on the scenario that the test's ``chaos`` marker names; its numbers become properties."""
    marker = request.node.get_closest_marker("chaos")
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError(
            "a test that uses 'chaos_verdict' names its scenario: @pytest.mark.chaos('reset-idle')"
        )
    (scenario,) = marker.args
    if isinstance(scenario, Scenario):
        planned: list[tuple[Scenario, Settings]] = [(scenario, resolve(scenario.all_parameters(), marker.kwargs))]
    else:
        planned = plan([scenario], marker.kwargs)
    target, drivers = chaos_engine
    seed = int(os.environ.get(_SEED_VARIABLE, "1"))
    results = run_planned(target, planned, tmp_path / "chaos-run", seed, drivers=drivers)
    for skipped in results.skipped:
        pytest.skip(f"{skipped.scenario}: {skipped.reason}")
    (verdict,) = results.verdicts
    request.node.user_properties += [(name, value) for name, value in verdict.numbers.items() if value is not None]
    return verdict
