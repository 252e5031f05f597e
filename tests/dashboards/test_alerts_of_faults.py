"""A chaos run on simulated engines: each fault raises its alert, and no other that wakes somebody up.

The tests follow one story, in order. Alerts wait as many seconds as the shipped ones wait minutes.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from hitcurve.child import LISTENING, ChildProcess

pytestmark = pytest.mark.real_prometheus

STATES = {"PrefixCacheCollapsed", "PrefixCacheDegraded", "PrefixCacheLow", "PrefixCacheOscillating"}
HURT, OTHER = "chaos", "chaos-1"
RUN_S = 240.0
SEEN_S = 2.0
"""The exporter scrapes the engines, Prometheus the exporter, and then evaluates its rules."""
SUITE: dict[str, Any] = {
    "title": "Alerts",
    "order": "listed",
    "parameters": {
        "baseline": "2s",
        "baseline_within": "30s",
        "hold": "10s",
        "recover_within": "30s",
        "correctness": False,
        "max_lag": "10s",
    },
    # Pressure floods the pool twice while the load asks each of its groups once; so do three adapters.
    "scenarios": [
        {"scenario": "reset-prefix-cache", "with": {"baseline": "5s", "hold": "5s"}},
        {"scenario": "pool-pressure", "with": {"refill": "500ms"}},
        {"scenario": "lora-churn", "with": {"rate": 48, "period": "60s", "hold": "14s", "recover_within": "2s"}},
        "restart-term",
        "restart-kill",
        "replica-loss",
    ],
}
TARGET = {
    "name": HURT,
    "start": {
        "engine": "simulated",
        "replicas": 2,
        "block_size": 16,
        "pool_blocks": 800,
        "options": ["--patched", "--speed", "4"],
    },
    "load": {
        "profile": "shared-system-prompt",
        "rate": 16,
        "groups": 16,
        "prefix_tokens": 512,
        "suffix_tokens": 96,
        "output_tokens": 4,
        "zipf": 0,
    },
}


def listening(logs: Path) -> dict[str, str]:
    """Addresses of the engines that the run started, by name, once both listen."""
    # The log of a replica is called like that of the first engine, and a number more.
    files = sorted(logs.glob("engine-*.log"), key=lambda file: len(file.name))
    lines = [line for file in files for line in file.read_text().splitlines() if line.startswith(LISTENING)]
    urls = [line.removeprefix(LISTENING).strip() for line in lines]
    return dict(zip((HURT, OTHER), urls, strict=True)) if len(urls) == 2 else {}


class Story:
    """What the run did and when, and the alerts of that time."""

    def __init__(self, fleet: Any, run: Path) -> None:
        self.fleet = fleet
        self.ended_s = time.time()
        self.events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
        self.verdicts = {one["scenario"]: one for one in json.loads((run / "verdicts.json").read_text())}

    def during(self, scenario: str) -> set[tuple[str, str, str]]:
        """Alerts that fired from a fault until its scenario ended, and not just before the fault."""
        return self.until(self.verdicts[scenario]["finished_at_s"] + SEEN_S, scenario)

    def until(self, to_s: float, scenario: str) -> set[tuple[str, str, str]]:
        """The same until another time, Unix seconds."""
        from_s = self.verdicts[scenario]["fault_from_s"]
        fired: set[tuple[str, str, str]] = self.fleet.fired(from_s, to_s)
        before: set[tuple[str, str, str]] = self.fleet.fired(from_s, from_s)
        return fired - before

    def applied(self, scenario: str) -> bool:
        return any(one["scenario"] == scenario and one["event"] == "fault_injected" for one in self.events)


@pytest.fixture(scope="module")
def story(hasty_watch: Any, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The run, from the first baseline to the last recovery."""
    folder = tmp_path_factory.mktemp("chaos")
    (folder / "suite.yaml").write_text(yaml.safe_dump(SUITE))
    target = {**TARGET, "exporter": hasty_watch.exporter_url}
    (folder / "targets.yaml").write_text(yaml.safe_dump({"targets": [target]}))
    command = [sys.executable, "-m", "hitcurve", "chaos", "run", str(folder / "suite.yaml"), "--seed", "1"]
    command += ["--targets", str(folder / "targets.yaml"), "--out", str(folder / "run")]
    with ChildProcess("chaos", command, folder / "chaos.log") as chaos:
        hasty_watch.wait(lambda: listening(folder / "run" / "logs"), "the engines of the run")
        hasty_watch.watch(listening(folder / "run" / "logs"))
        chaos.wait_end(RUN_S)
    hasty_watch.wait_for_rules_after(time.time())
    return Story(hasty_watch, folder / "run")


def test_every_fault_was_applied(story: Story) -> None:
    assert len(story.verdicts) == len(SUITE["scenarios"])
    assert all(story.applied(name) for name in story.verdicts), story.events


def test_a_steady_fleet_is_silent(story: Story) -> None:
    verdict = story.verdicts["reset-prefix-cache"]
    assert story.fleet.fired(verdict["baseline_from_s"], verdict["fault_from_s"]) == set()


def test_a_reset_is_told_and_wakes_nobody_up(story: Story) -> None:
    assert story.during("reset-prefix-cache") == {("PrefixCacheReset", "info", HURT)}


@pytest.mark.parametrize("scenario", ["pool-pressure", "lora-churn"])
def test_what_spoils_the_curve_raises_the_alert_of_its_state(scenario: str, story: Story) -> None:
    fired = story.during(scenario)
    assert {name for name, _, target in fired if target == HURT} & STATES
    assert {name for name, severity, _ in fired if severity == "critical"} <= {"PrefixCacheCollapsed"}
    assert OTHER not in {target for _, _, target in fired}


def test_one_restart_wakes_nobody_up_and_two_are_told(story: Story) -> None:
    assert story.during("restart-term") == set()
    # The alert comes when exporter, Prometheus and rules had their turn; a quick engine is back before that.
    fired = story.until(story.ended_s, "restart-kill")
    assert ("PrefixCacheEngineRestarting", "warning", HURT) in fired
    assert "critical" not in {severity for _, severity, _ in fired}


def test_a_replica_that_is_lost_and_comes_back_wakes_nobody_up(story: Story) -> None:
    assert "critical" not in {severity for _, severity, _ in story.during("replica-loss")}


def test_engines_that_are_gone_and_an_exporter_that_died(story: Story) -> None:
    fleet = story.fleet
    down = ("HitcurveTargetDown", "warning")
    fleet.wait(
        lambda: {(*down, HURT), (*down, OTHER)} <= fleet.fired(time.time(), time.time()),
        "the alert on the engines",
    )
    assert fleet.firing("critical") == set()
    fleet.processes["exporter"].stop()
    fleet.wait(lambda: "HitcurveExporterMissing" in fleet.firing(), "the alert on the exporter")
    assert fleet.firing("critical") == {"HitcurveExporterMissing"}
    assert not fleet.firing() & STATES
