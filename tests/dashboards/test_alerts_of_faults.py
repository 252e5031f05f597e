"""Each fault raises its alert, and no other that wakes somebody up. The tests follow one story, in order."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytestmark = pytest.mark.real_prometheus

STATE_ALERTS = {"PrefixCacheCollapsed", "PrefixCacheDegraded", "PrefixCacheLow", "PrefixCacheOscillating"}
STEADY = 'hitcurve_curve_state{state="steady"} == 1'


@contextmanager
def pressure(url: str) -> Iterator[None]:
    """Prompts that share nothing, four at a time: more than the pool holds."""
    stopped = threading.Event()

    def send(name: int) -> None:
        while not stopped.is_set():
            prompt = f"{name} {time.time_ns()} " * 24
            body = json.dumps({"model": "simulated", "prompt": prompt, "max_tokens": 4}).encode()
            request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=30).close()

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join(30)


def test_a_steady_fleet_is_silent(hasty_fleet: Any) -> None:
    hasty_fleet.wait(
        lambda: len(hasty_fleet.ask(STEADY)) == 2 and not hasty_fleet.firing(), "a steady silent fleet"
    )


def test_a_reset_wakes_nobody_up(hasty_fleet: Any) -> None:
    hasty_fleet.reset("sim-0")
    hasty_fleet.wait(lambda: "PrefixCacheReset" in hasty_fleet.firing(), "the alert on the reset")
    assert hasty_fleet.firing("critical") == set()


def test_pool_pressure_raises_the_alert_of_its_state(hasty_fleet: Any) -> None:
    hasty_fleet.wait(lambda: len(hasty_fleet.ask(STEADY)) == 2, "a steady fleet")
    with pressure(hasty_fleet.engines["sim-0"]):
        hasty_fleet.wait(lambda: hasty_fleet.firing() & STATE_ALERTS, "an alert on the curve of sim-0")
        found = hasty_fleet.ask('ALERTS{alertstate="firing",alertname=~"PrefixCache.+",target!=""}')
        assert {labels["target"] for labels, _ in found} == {"sim-0"}
        assert hasty_fleet.firing("critical") <= {"PrefixCacheCollapsed"}


def test_an_engine_that_died_and_an_exporter_that_died(hasty_fleet: Any) -> None:
    hasty_fleet.processes["sim-1"].stop()
    hasty_fleet.wait(lambda: "HitcurveTargetDown" in hasty_fleet.firing(), "the alert on the engine")
    assert "HitcurveExporterMissing" not in hasty_fleet.firing()
    hasty_fleet.processes["exporter"].stop()
    hasty_fleet.wait(
        lambda: hasty_fleet.firing("critical") == {"HitcurveExporterMissing"}, "the alert on the exporter"
    )
    assert not hasty_fleet.firing() & STATE_ALERTS
