"""Whole sequences of states on synthetic curves with fixed seeds."""

from typing import Any


def test_steady_traffic_reads_cold_then_steady(bench: Any) -> None:
    run = bench.watch(bench.traffic(rate=lambda _: 0.8, qps=lambda _: 5.0, seconds=3600.0))
    assert run.sequence() == ["cold", "steady"]
