"""The time model and the engine loop, in virtual time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hitcurve_simulator.server.clock import RealClock, VirtualClock
from hitcurve_simulator.server.settings import EngineSettings
from hitcurve_simulator.server.time_model import TimeModel


def test_step_time_is_the_documented_formula() -> None:
    model = TimeModel(prefill_us_per_token=50, attention_ns_per_pair=10, decode_ms_per_step=4, speed=1)
    assert model.step_s([]) == 0
    assert model.step_s([(1000, 0)]) == pytest.approx(0.004 + 0.05 + 10e-9 * 500_500)
    assert model.step_s([(120, 680)]) == pytest.approx(0.004 + 0.006 + 10e-9 * (120 * 680 + 7260))
    assert model.step_s([(1, 800), (1, 900), (7, 0)]) == pytest.approx(0.004 + 0.00045 + 10e-9 * (801 + 901 + 28))
    assert TimeModel(speed=4).step_s([(1000, 0)]) == pytest.approx(TimeModel().step_s([(1000, 0)]) / 4)


def test_defaults_are_about_60_ms_for_1000_tokens_and_4_ms_a_decode_step() -> None:
    assert TimeModel().step_s([(1000, 0)]) == pytest.approx(0.060, abs=0.002)
    assert TimeModel().step_s([(1, 1000)]) == pytest.approx(0.004, abs=0.0002)


def test_time_to_first_token_falls_with_hits_and_is_what_the_model_says(engine_server: Callable[..., Any]) -> None:
    model = TimeModel()
    server = engine_server(EngineSettings(block_size=16, time=model))
    name = "vllm:time_to_first_token_seconds_sum"
    measured = []
    for _ in range(2):
        before = server.series()[name]
        server.complete("a" * 1000, max_tokens=1)
        measured.append(server.series()[name] - before)
    assert measured == pytest.approx([model.step_s([(1000, 0)]), model.step_s([(8, 992)])])
    assert measured[0] > 10 * measured[1]


def test_phases_of_a_request_add_up(engine_server: Callable[..., Any]) -> None:
    model = TimeModel()
    server = engine_server(EngineSettings(block_size=16, time=model, max_num_batched_tokens=64))
    server.complete("a" * 100, max_tokens=3)
    prefill = model.step_s([(64, 0)]) + model.step_s([(36, 64)])
    decode = model.step_s([(1, 100)]) + model.step_s([(1, 101)])
    series = server.series()
    seen = {
        phase: series[f"vllm:{name}_seconds_sum"]
        for phase, name in {
            "first token": "time_to_first_token",
            "queue": "request_queue_time",
            "prefill": "request_prefill_time",
            "decode": "request_decode_time",
            "inference": "request_inference_time",
            "whole": "e2e_request_latency",
            "per token": "request_time_per_output_token",
            "between tokens": "inter_token_latency",
        }.items()
    }
    assert seen == pytest.approx(
        {
            "first token": prefill,
            "queue": 0,
            "prefill": prefill,
            "decode": decode,
            "inference": prefill + decode,
            "whole": prefill + decode,
            "per token": decode / 2,
            "between tokens": decode,
        }
    )


def test_requests_that_share_a_step_share_its_fixed_cost(engine_server: Callable[..., Any]) -> None:
    model = TimeModel()
    server = engine_server(EngineSettings(block_size=16, time=model))
    server.complete(["a" * 10, "b" * 20, "c" * 30], max_tokens=1)
    together = model.step_s([(10, 0), (20, 0), (30, 0)])
    assert server.series()["vllm:e2e_request_latency_seconds_sum"] == pytest.approx(3 * together)


def test_a_waiting_request_queues_for_as_long_as_the_one_before_runs(engine_server: Callable[..., Any]) -> None:
    model = TimeModel()
    server = engine_server(EngineSettings(block_size=16, time=model, max_num_seqs=1))
    server.complete(["a" * 10, "b" * 20], max_tokens=2)
    first = model.step_s([(10, 0)]) + model.step_s([(1, 10)])
    assert server.series()["vllm:request_queue_time_seconds_sum"] == pytest.approx(first)


def test_the_virtual_clock_jumps_and_the_real_one_waits() -> None:
    async def wait(clock: RealClock | VirtualClock, seconds: float) -> tuple[float, float]:
        at, wall = clock.monotonic(), clock.wall()
        await clock.sleep_until(at + seconds)
        return clock.monotonic() - at, clock.wall() - wall

    assert asyncio.run(wait(VirtualClock(), 3600)) == pytest.approx((3600, 3600))
    monotonic, wall = asyncio.run(wait(RealClock(), 0.02))
    assert monotonic >= 0.02
    assert wall == pytest.approx(monotonic, abs=1)
