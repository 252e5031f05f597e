"""The pages in docs/scenarios are the scenarios' own words."""

from pathlib import Path

import pytest

from hitcurve_chaos.scenario_page import index, page
from hitcurve_chaos.scenarios.registry import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_page_is_in_step_with_the_scenario(name: str, repository: Path) -> None:
    written = (repository / "docs" / "scenarios" / f"{name}.md").read_text()
    assert written == page(SCENARIOS[name]), "run: python -m hitcurve_chaos.scenario_page docs/scenarios"


def test_the_index_lists_every_scenario_and_there_is_no_page_of_another(repository: Path) -> None:
    folder = repository / "docs" / "scenarios"
    assert (folder / "README.md").read_text() == index()
    assert {path.stem for path in folder.glob("*.md")} == {*SCENARIOS, "README"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_tells_its_story(name: str) -> None:
    scenario = SCENARIOS[name]
    story = scenario.story
    for sentence in (scenario.expected, story.fault, story.signature, story.rollback, story.safety):
        assert sentence.endswith(".")
    text = page(scenario)
    for title in ("Steady state before", "Fault", "Expected", "Signature", "Recovery", "Rollback", "Safety"):
        assert f"## {title}\n" in text
