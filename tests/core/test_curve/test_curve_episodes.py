"""Every incident of a long curve is an episode of its own, with onset, depth, duration and what it cost."""

from typing import Any

import pytest


def test_four_incidents_of_four_kinds_are_four_episodes(bench: Any) -> None:
    """A reset, a step down that recovers, a restart, a stall; lost tokens are integrals of the true rate."""
    level, qps, prompt = 0.8, 20.0, 800.0 * 1.046
    rate = bench.pieces(
        (0.0, level),
        (1800.0, bench.warm_up(level, 60.0, 1800.0)),
        (3600.0, 0.5),
        (4200.0, level),
        (6000.0, bench.warm_up(level, 60.0, 6000.0)),
    )
    traffic = bench.traffic(
        rate=rate,
        qps=bench.pieces((0.0, qps), (7800.0, 0.0), (8100.0, qps)),
        seconds=9000.0,
        waiting=bench.pieces((0.0, 0.0), (7800.0, 3.0), (8100.0, 0.0)),
        events=((1800.0, "reset"), (6000.0, "restart")),
    )
    reset, step, restart, stall = bench.watch(traffic).classifier.episodes
    assert [one.cause for one in (reset, step, restart, stall)] == ["reset", "unknown", "restart", "unknown"]
    assert reset.from_s == 1800.0
    assert step.from_s == pytest.approx(3600.0, abs=30.0)
    assert restart.from_s == 6000.0
    assert stall.from_s == pytest.approx(7800.0, abs=15.0)
    assert reset.lost_tokens == pytest.approx(level * 60.0 * qps * prompt, rel=0.25)
    assert step.lost_tokens == pytest.approx(0.3 * 600.0 * qps * prompt, rel=0.15)
    assert step.depth == pytest.approx(0.3, abs=0.1)
    assert reset.depth == pytest.approx(level, abs=0.15)
    assert step.to_s == pytest.approx(4200.0, abs=60.0)
    assert stall.to_s == pytest.approx(8115.0, abs=15.0)
    assert restart.to_s is not None
    assert 60.0 < restart.to_s - restart.from_s < 900.0


def test_a_fall_that_climbs_again_at_once_is_an_episode(bench: Any) -> None:
    """A reset that nothing tells, half warm within its scrape: it reads ``warming``, never ``collapsed``."""
    traffic = bench.traffic(
        rate=bench.pieces((0.0, 0.8), (1809.0, bench.warm_up(0.8, 15.0, 1809.0))),
        qps=lambda _: 90.0,
        seconds=3000.0,
    )
    run = bench.watch(traffic)
    assert run.sequence() == ["cold", "steady", "warming(unknown)", "steady"]
    [episode] = run.classifier.episodes
    assert episode.from_s == pytest.approx(1809.0, abs=15.0)
    assert episode.to_s == run.first("steady", after_s=1809.0)
    assert episode.lost_tokens == pytest.approx(0.8 * 15.0 * 90.0 * 837, rel=0.25)


def test_two_falls_of_one_kind_are_two_episodes(bench: Any) -> None:
    """The recovered first one stays; the lower of the two is not the only one."""
    traffic = bench.traffic(
        rate=bench.pieces((0.0, 0.8), (1800.0, 0.45), (2700.0, 0.8), (5400.0, 0.55), (6300.0, 0.8)),
        qps=lambda _: 20.0,
        seconds=7800.0,
    )
    first, second = bench.watch(traffic).classifier.episodes
    assert first.from_s == pytest.approx(1800.0, abs=30.0)
    assert second.from_s == pytest.approx(5400.0, abs=30.0)
    assert first.depth > second.depth
    assert first.to_s is not None
    assert second.to_s is not None
