"""Whole sequences of states on synthetic curves with fixed seeds.

Every scenario runs on three seeds, so that a sequence is a property of the scenario and not of one draw.
"""

from typing import Any

import pytest

from hitcurve.curve import CurveConfig

SEEDS = (1, 2, 3)


def always(value: float) -> Any:
    return lambda _: value


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def healthy(bench: Any) -> dict[str, Any]:
    traffic = bench.traffic
    return {
        "busy": traffic(rate=always(0.6), qps=always(300.0), seconds=3600.0),
        "fast scrapes": traffic(rate=always(0.85), qps=always(30.0), seconds=400.0, scrape_s=1.0, share=0.85),
        "slow scrapes": traffic(rate=always(0.5), qps=always(5.0), seconds=7200.0, scrape_s=60.0),
        "three requests a minute": traffic(rate=always(0.8), qps=always(0.05), seconds=4 * 3600.0),
        "three a minute, not counted": traffic(
            rate=always(0.8), qps=always(0.05), seconds=4 * 3600.0, counted=False
        ),
        "bursts": traffic(rate=always(0.8), qps=lambda t: 60.0 if t % 900 < 45 else 2.0, seconds=7200.0),
        "prompts of very unequal length": traffic(
            rate=always(0.7), qps=always(1.0), seconds=4 * 3600.0, spread=1.2
        ),
    }


@pytest.mark.parametrize(
    "name",
    [
        "busy",
        "fast scrapes",
        "slow scrapes",
        "three requests a minute",
        "three a minute, not counted",
        "bursts",
        "prompts of very unequal length",
    ],
)
def test_healthy_traffic_ends_steady_and_is_never_unhealthy(bench: Any, seed: int, name: str) -> None:
    run = bench.watch(healthy(bench)[name], seed)
    assert set(run.sequence()) <= {"cold", "no_traffic", "warming", "steady"}
    assert run.states[-1].state == "steady"
    assert run.classifier.episodes == ()


def test_requests_that_share_one_fate_are_noise_not_swings(bench: Any, seed: int) -> None:
    traffic = bench.traffic(rate=always(0.8), qps=always(4.0), seconds=7200.0, batch=10)
    run = bench.watch(traffic, seed)
    assert set(run.sequence()) <= {"cold", "warming", "steady"}
    assert run.states[-1].evidence["request_noise"] > 4.0


def test_warm_up_of_a_new_engine(bench: Any, seed: int) -> None:
    run = bench.watch(bench.traffic(rate=bench.warm_up(0.8, 60.0), qps=always(10.0), seconds=1200.0), seed)
    assert run.sequence() == ["cold", "warming", "steady"]


def test_known_reset_under_load_reads_collapsed_then_warming_then_steady(bench: Any, seed: int) -> None:
    """The reset of the demo: 30 requests a second of 100 prefix groups, scraped every second."""
    traffic = bench.traffic(
        rate=bench.pieces((0.0, bench.warm_up(0.85, 3.3)), (60.4, bench.warm_up(0.85, 3.3, 60.4))),
        qps=always(30.0),
        seconds=120.0,
        scrape_s=1.0,
        events=((60.4, "reset"),),
    )
    run = bench.watch(traffic, seed)
    assert run.sequence() == ["cold", "warming", "steady", "collapsed(reset)", "warming(reset)", "steady"]
    assert run.first("collapsed") <= 62.0
    [episode] = run.classifier.episodes
    assert (episode.from_s, episode.cause) == (60.4, "reset")
    assert episode.to_s == run.first("steady", after_s=60.4)
    # 0.85 * 3.3 s of traffic are recomputed: the integral of 0.85 * exp(-t / 3.3).
    assert episode.lost_tokens == pytest.approx(0.85 * 3.3 * 30 * 837, rel=0.4)
    assert 0.45 < episode.depth < 0.85


def test_known_reset_that_hardly_shows_reads_warming(bench: Any, seed: int) -> None:
    """One shared prefix: the dip is one request, so nothing collapsed; the new epoch still has to prove itself."""
    traffic = bench.traffic(
        rate=bench.pieces((0.0, 0.85), (60.4, 0.0), (60.43, 0.85)),
        qps=always(30.0),
        seconds=90.0,
        scrape_s=1.0,
        share=0.85,
        events=((60.4, "reset"),),
    )
    assert bench.watch(traffic, seed).sequence() == ["cold", "steady", "warming(reset)", "steady"]


def test_reset_that_nothing_tells_reads_collapsed_unknown(bench: Any, seed: int) -> None:
    traffic = bench.traffic(
        rate=bench.pieces((0.0, 0.8), (1800.0, bench.warm_up(0.8, 90.0, 1800.0))),
        qps=always(20.0),
        seconds=3600.0,
    )
    run = bench.watch(traffic, seed)
    assert run.sequence() == ["cold", "steady", "collapsed(unknown)", "warming", "steady"]
    assert run.first("collapsed") <= 1830.0


def test_restart_reads_cold_then_warming(bench: Any, seed: int) -> None:
    traffic = bench.traffic(
        rate=bench.pieces((0.0, 0.8), (1800.4, bench.warm_up(0.8, 60.0, 1800.4))),
        qps=always(5.0),
        seconds=3600.0,
        events=((1800.4, "restart"),),
    )
    run = bench.watch(traffic, seed)
    assert run.sequence() == ["cold", "steady", "cold(restart)", "warming(restart)", "steady"]
    assert run.first("cold", after_s=1.0) == 1815.0


def test_cache_that_stops_working_stays_collapsed(bench: Any, seed: int) -> None:
    traffic = bench.traffic(rate=bench.pieces((0.0, 0.6), (1800.0, 0.0)), qps=always(300.0), seconds=3600.0)
    run = bench.watch(traffic, seed)
    assert run.sequence() == ["cold", "steady", "collapsed(unknown)"]
    assert run.first("collapsed") == 1815.0


def test_step_down_and_back(bench: Any, seed: int) -> None:
    traffic = bench.traffic(
        rate=bench.pieces((0.0, 0.8), (1800.0, 0.5), (3600.0, 0.8)), qps=always(10.0), seconds=5400.0
    )
    run = bench.watch(traffic, seed)
    assert run.sequence() == ["cold", "steady", "degraded(unknown)", "steady"]
    assert 1800.0 < run.first("degraded") <= 1875.0
    assert 3600.0 < run.first("steady", after_s=1800.0) <= 3660.0


def test_lasting_step_is_accepted_after_the_set_time(bench: Any) -> None:
    traffic = bench.traffic(rate=bench.pieces((0.0, 0.8), (1800.0, 0.5)), qps=always(10.0), seconds=5400.0)
    run = bench.watch(traffic, config=CurveConfig(accept_after_s=900.0))
    degraded = run.first("degraded")
    assert run.sequence() == ["cold", "steady", "degraded(unknown)", "steady"]
    assert run.first("steady", after_s=1800.0) == degraded + 900.0
    assert run.states[-1].evidence["baseline"] == pytest.approx(0.5, abs=0.02)


def test_level_accepted_by_hand(bench: Any) -> None:
    traffic = bench.traffic(rate=bench.pieces((0.0, 0.8), (1800.0, 0.5)), qps=always(10.0), seconds=2400.0)
    run = bench.watch(traffic)
    assert run.states[-1].state == "degraded"
    run.classifier.accept()
    *_, last = bench.scrapes(traffic, 1)
    assert run.classifier.observe(last.interval, last.sample, 2415.0).state == "steady"


def test_thrash_reads_oscillating_and_ends(bench: Any, seed: int) -> None:
    traffic = bench.traffic(
        rate=bench.pieces((0.0, 0.8), (1800.0, lambda t: 0.2 if t // 60 % 2 == 0 else 0.8), (3600.0, 0.8)),
        qps=always(20.0),
        seconds=5400.0,
        evictions=bench.pieces((0.0, 0.0), (1800.0, 20.0), (3600.0, 0.0)),
    )
    run = bench.watch(traffic, seed)
    assert run.first("oscillating") <= 2160.0
    assert run.sequence()[-3:] == ["oscillating(pool_pressure)", "warming", "steady"]
    assert 3600.0 < run.first("steady", after_s=2400.0) <= 4200.0
    assert [episode.cause for episode in run.classifier.episodes] == ["pool_pressure"]


def test_rate_that_never_rises_is_low(bench: Any, seed: int) -> None:
    run = bench.watch(bench.traffic(rate=always(0.03), qps=always(2.0), seconds=1800.0), seed)
    assert run.sequence() == ["cold", "low(unknown)"]
    assert run.first("low") >= 300.0


def test_low_rate_that_rises_is_left(bench: Any, seed: int) -> None:
    rate = bench.pieces((0.0, 0.02), (1200.0, bench.warm_up(0.7, 120.0, 1200.0)))
    run = bench.watch(bench.traffic(rate=rate, qps=always(5.0), seconds=2400.0), seed)
    assert run.sequence() == ["cold", "low(unknown)", "warming", "steady"]


def test_steady_far_below_a_known_ceiling_is_low(bench: Any, seed: int) -> None:
    traffic = bench.traffic(rate=always(0.3), qps=always(5.0), seconds=1800.0)
    run = bench.watch(traffic, seed, CurveConfig(ceiling=0.8))
    assert run.sequence()[-1] == "low(unknown)"
    assert bench.watch(traffic, seed).sequence()[-1] == "steady"


def test_idle_engine_keeps_its_baseline(bench: Any, seed: int) -> None:
    qps = bench.pieces((0.0, 5.0), (1800.0, 0.0), (9000.0, 5.0))
    run = bench.watch(bench.traffic(rate=always(0.8), qps=qps, seconds=10800.0), seed)
    assert run.sequence() == ["cold", "steady", "no_traffic", "steady"]
    assert run.first("no_traffic") <= 1890.0
    assert run.first("steady", after_s=1900.0) == 9015.0


def test_traffic_of_a_new_day_may_miss_first(bench: Any, seed: int) -> None:
    rate = bench.pieces((0.0, 0.8), (9000.0, lambda t: 0.3 + bench.warm_up(0.5, 180.0, 9000.0)(t)))
    qps = bench.pieces((0.0, 5.0), (1800.0, 0.0), (9000.0, 5.0))
    run = bench.watch(bench.traffic(rate=rate, qps=qps, seconds=10800.0), seed)
    assert run.sequence() == ["cold", "steady", "no_traffic", "steady", "warming(traffic_shift)", "steady"]


def test_waiting_requests_with_unmoved_counters_are_stalled_not_idle(bench: Any, seed: int) -> None:
    qps = bench.pieces((0.0, 5.0), (1800.0, 0.0), (2400.0, 5.0))
    waiting = bench.pieces((0.0, 0.0), (1800.0, 3.0), (2400.0, 0.0))
    run = bench.watch(bench.traffic(rate=always(0.8), qps=qps, seconds=3600.0, waiting=waiting), seed)
    assert run.sequence() == ["cold", "steady", "stalled(unknown)", "steady"]
    assert run.first("stalled") == 1830.0
    state = next(state for state in run.states if state.state == "stalled")
    assert (state.evidence["rate"], state.evidence["waiting"], state.evidence["silence_s"]) == (None, 3.0, 30.0)


def test_failed_scrapes_change_nothing(bench: Any, seed: int) -> None:
    traffic = bench.traffic(rate=always(0.8), qps=always(10.0), seconds=1800.0, failed=frozenset((50, 51, 70)))
    assert bench.watch(traffic, seed).sequence() == ["cold", "steady"]


def test_fresh_adapters_name_the_cause(bench: Any, seed: int) -> None:
    traffic = bench.traffic(
        rate=bench.pieces((0.0, 0.85), (60.0, 0.5), (100.0, 0.85)),
        qps=always(30.0),
        seconds=140.0,
        scrape_s=1.0,
        adapters=lambda t: ("base",) if t < 60.0 or t > 100.0 else ("base", f"fresh-{int(t / 3)}"),
    )
    assert bench.watch(traffic, seed).sequence() == ["cold", "steady", "degraded(lora_churn)", "steady"]


def test_evictions_name_the_cause(bench: Any, seed: int) -> None:
    traffic = bench.traffic(
        rate=bench.pieces((0.0, 0.85), (60.0, 0.55)),
        qps=always(30.0),
        seconds=100.0,
        scrape_s=1.0,
        evictions=bench.pieces((0.0, 0.0), (60.0, 25.0)),
    )
    assert bench.watch(traffic, seed).sequence() == ["cold", "steady", "degraded(pool_pressure)"]


def test_prompts_shorter_than_two_blocks_name_the_cause(bench: Any, seed: int) -> None:
    traffic = bench.traffic(rate=always(0.0), qps=always(2.0), seconds=900.0, block_size=784)
    assert bench.watch(traffic, seed).sequence() == ["cold", "low(short_prefix)"]
