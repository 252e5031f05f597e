"""A step down that evictions speak for too is named sooner, and evictions alone never name one."""

from typing import Any

from hitcurve.curve import CurveConfig

STEP_S = 3000.0
RATE_ALONE = CurveConfig(signalled_score=0.0)


def stepping(bench: Any, *, evictions: float, after: float) -> Any:
    """Half a request a second at 0.8, and at ``after`` from the step on, where blocks begin to be evicted."""
    return bench.traffic(
        rate=bench.pieces((0.0, 0.8), (STEP_S, after)),
        qps=lambda _: 0.5,
        seconds=2 * STEP_S,
        evictions=bench.pieces((0.0, 0.0), (STEP_S, evictions)),
    )


def delays(bench: Any, config: CurveConfig, evictions: float) -> list[float]:
    found = []
    for seed in range(8):
        run = bench.watch(stepping(bench, evictions=evictions, after=0.55), seed, config)
        found.append(run.first("degraded", after_s=STEP_S) - STEP_S)
    return found


def test_a_step_with_evictions_is_named_sooner_than_by_the_rate_alone(bench: Any) -> None:
    both, alone = delays(bench, CurveConfig(), 5.0), delays(bench, RATE_ALONE, 5.0)
    assert all(sooner <= later for sooner, later in zip(both, alone, strict=True))
    assert sum(both) < 0.9 * sum(alone)
    assert delays(bench, CurveConfig(), 0.0) == delays(bench, RATE_ALONE, 0.0)


def test_evictions_without_a_fall_are_no_finding(bench: Any) -> None:
    for seed in range(8):
        run = bench.watch(stepping(bench, evictions=5.0, after=0.8), seed)
        assert run.sequence()[-1] == "steady"
        assert not any(state.startswith("degraded") for state in run.sequence())
