"""Scenarios as tests of your own repository; the engines are those of a target file.

pytest -p hitcurve_chaos.pytest_plugin examples/drill_as_test.py --chaos-targets chaos/targets.simulated.yaml

In a repository of your own, put pytest_plugins = ["hitcurve_chaos.pytest_plugin"] into the topmost conftest.py
instead of -p. Without --chaos-targets the tests are skipped; so is a scenario that the target cannot do.
"""

from dataclasses import replace

import pytest

from hitcurve_chaos.hypothesis import AtMost, Expectation
from hitcurve_chaos.scenarios.registry import SCENARIOS
from hitcurve_chaos.verdict import Verdict

STRICTER = replace(
    SCENARIOS["short-prefixes"],
    name="short-prefixes-exactly",
    expectations=lambda settings: [
        Expectation("tokens_beyond_rule", "cached tokens beyond full blocks", AtMost(0)),
        Expectation("tokens_below_rule", "cached tokens missing from full blocks", AtMost(0)),
        Expectation("near_ties", "answers that differed where two tokens were equally likely", AtMost(0)),
    ],
)


@pytest.mark.chaos("reset-idle", recover_within="30s")
def test_a_reset_clears_everything(chaos_verdict: Verdict) -> None:
    assert chaos_verdict.verdict == "ok", chaos_verdict.problems
    assert chaos_verdict.numbers["still_cached_tokens"] == 0


@pytest.mark.chaos(STRICTER)
def test_full_blocks_and_nothing_else_are_served(chaos_verdict: Verdict) -> None:
    assert chaos_verdict.verdict == "ok", chaos_verdict.problems
