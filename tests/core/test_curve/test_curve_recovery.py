"""Back at the level before a fall: the curve reads steady again, whatever the way back looked like."""

from typing import Any

import pytest

LEVEL, FALL_S = 0.8, 200
CHURN = (
    0.74,
    0.6,
    0.32,
    0.39,
    0.31,
    0.43,
    0.27,
    0.24,
    0.4,
    0.31,
    0.37,
    0.24,
    0.17,
    0.35,
    0.24,
    0.45,
    0.52,
    0.58,
    0.71,
)
"""Rates of a simulated engine second by second, from the load of three adapters until the climb after it."""
BACK_S = FALL_S + len(CHURN) + 3


def churned(t: float) -> float:
    seconds = int(t) - FALL_S
    return CHURN[seconds] if 0 <= seconds < len(CHURN) else LEVEL


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_climb_that_begins_late_is_over_when_the_level_is_reached(bench: Any, seed: int) -> None:
    traffic = bench.traffic(rate=churned, qps=lambda _: 40.0, seconds=BACK_S + 25.0, scrape_s=1.0, share=LEVEL)
    run = bench.watch(traffic, seed)
    assert {"collapsed(unknown)", "warming"} < set(run.sequence())
    assert BACK_S - 3.0 < run.states[-1].since_s <= BACK_S + 8.0
    assert run.states[-1].state == "steady"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_climb_past_the_level_before_is_not_over_there(bench: Any, seed: int) -> None:
    def climbs_past(t: float) -> float:
        return 0.5 if t < 200.0 else 0.1 if t < 240.0 else min(0.9, 0.1 + (t - 240.0) * 0.04)

    traffic = bench.traffic(rate=climbs_past, qps=lambda _: 40.0, seconds=300.0, scrape_s=1.0, share=0.9)
    run = bench.watch(traffic, seed)
    assert run.sequence()[-3:] == ["collapsed(unknown)", "warming", "steady"]
    assert run.states[-1].evidence["baseline"] == pytest.approx(0.9, abs=0.03)
