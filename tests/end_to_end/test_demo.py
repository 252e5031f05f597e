"""The main job end to end on the simulated engine, as a person would run it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hitcurve_chaos.report.figures import curves, drops, time_range
from hitcurve_chaos.report.run_folder import RunFolder, load_run_folder


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that were started for this run folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"HITCURVE_TEST_RUN={folder}".encode() in entry.read_bytes():
                found.append((entry.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "HITCURVE_TEST_RUN": str(folder), "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], RunFolder]:
    folder = tmp_path_factory.mktemp("demo") / "run"
    done = subprocess.run(
        [sys.executable, "-m", "hitcurve", "demo", "--json", "--out", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment(folder),
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert processes_of(folder) == []
    return json.loads(done.stdout), load_run_folder(folder)


def test_every_scenario_is_ok_and_the_report_is_written(demo: tuple[dict[str, Any], RunFolder]) -> None:
    result, run = demo
    assert result["ok"] is True
    assert {v["scenario"]: v["verdict"] for v in result["verdicts"]} == {
        "pool-pressure": "ok",
        "lora-churn": "ok",
        "reset-prefix-cache": "ok",
    }
    assert Path(result["report"]) == run.folder / "report.html"
    assert "3 of 3 scenarios ok" in (run.folder / "report.html").read_text()


def test_exporter_and_client_agree_to_the_token(demo: tuple[dict[str, Any], RunFolder]) -> None:
    """The simulated engine answers every request it admits, so nothing but our own probes may stand between."""
    agreement = demo[0]["agreement"]
    assert agreement["unknown_requests"] == 0
    assert agreement["blocks_per_request"] < 0.05


def test_the_three_hit_rates_behave_as_they_are_defined(demo: tuple[dict[str, Any], RunFolder]) -> None:
    """A reset under load: rate-based falls at once, request-window lags by N/QPS, cumulative hardly moves."""
    run = demo[1]
    start, end = time_range(run)
    (curve,) = curves(run, start)
    verdict = next(v for v in run.verdicts if v["scenario"] == "reset-prefix-cache")
    fault = verdict["fault_from_s"] - start
    rate, window, cumulative = drops(curve, fault, end - start)
    assert rate.before is not None
    assert rate.lowest is not None
    assert window.before is not None
    assert window.lowest is not None
    assert cumulative.before is not None
    assert cumulative.lowest is not None
    fall = rate.before - rate.lowest
    assert fall > 0.2
    assert window.before - window.lowest < 0.95 * fall
    assert cumulative.before - cumulative.lowest < 0.25 * fall
    assert rate.seconds_to_lowest is not None
    assert window.seconds_to_lowest is not None
    assert window.seconds_to_lowest > rate.seconds_to_lowest
    lag = verdict["numbers"]["request_window_lag_s"]
    arguments = run.run["load"][0]["arguments"]
    assert lag == pytest.approx(run.run["exporter"]["request_window"] / arguments["rate"], rel=0.35)


def test_hits_are_faster_than_misses(demo: tuple[dict[str, Any], RunFolder]) -> None:
    from hitcurve_chaos.report.figures import latency, percentile

    measured = latency(demo[1].requests)
    hit, miss = percentile(measured.hits, 0.5), percentile(measured.misses, 0.5)
    assert hit is not None
    assert miss is not None
    assert hit < miss


def test_a_recorded_run_reads_back_as_the_same_report(demo: tuple[dict[str, Any], RunFolder]) -> None:
    folder = demo[1].folder
    before = (folder / "report.html").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "hitcurve", "report", str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == str(folder / "report.html")
    assert (folder / "report.html").read_text() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "hitcurve", "demo", "--out", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(folder),
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if re.search("waiting until the curve is steady", line):
            break
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "hitcurve: interrupted."
    assert "Traceback" not in errors
    deadline = time.monotonic() + 10
    while processes_of(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(folder) == []


def test_an_unknown_scenario_starts_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "hitcurve", "demo", "--scenario", "reset-prefix-cash", "--out", str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "reset-prefix-cache" in done.stderr
    assert not folder.exists()
