"""Processes that are paused: found by their pid file, resumed by whoever recovers, and never taken for another."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitcurve_chaos.calls import HttpTransport
from hitcurve_chaos.clock import SystemClock, wait_until
from hitcurve_chaos.drivers.driver import DriverFailed
from hitcurve_chaos.drivers.pid_file import PidFileProcess
from hitcurve_chaos.drivers.processes import descendants, environment_of, start_ticks, state_of
from hitcurve_chaos.journal import JournalFile
from hitcurve_chaos.recover import recover
from hitcurve_chaos.targets import Target, describe

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
TARGET = Target("t", "http://127.0.0.1:1", "m")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(SLEEPER, stdout=subprocess.PIPE, env={"PYTHONHASHSEED": "7"})
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def driver(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> PidFileProcess:
    (tmp_path / "pid").write_text(f"{sleeper.pid}\n")
    return PidFileProcess(tmp_path / "pid")


def stopped(process: subprocess.Popen[bytes]) -> bool:
    return wait_until(lambda: state_of(process.pid) == "T", 5.0)


def goes_on(process: subprocess.Popen[bytes]) -> bool:
    return wait_until(lambda: state_of(process.pid) == "S", 5.0)


def journal_of(folder: Path, record: dict[str, Any]) -> None:
    stored = json.loads(json.dumps(record))
    JournalFile(folder, SystemClock()).write("one", "fault_injecting", record=stored, target=describe(TARGET))


def test_a_process_is_paused_and_resumed(driver: PidFileProcess, sleeper: subprocess.Popen[bytes]) -> None:
    assert driver.can == {"pause"}
    driver.pause()
    assert stopped(sleeper)
    driver.resume()
    assert goes_on(sleeper)
    driver.resume()
    assert driver.environment()["PYTHONHASHSEED"] == "7"


def test_recover_resumes_what_a_dead_run_has_paused(
    driver: PidFileProcess, sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    journal_of(tmp_path, driver.record("pause"))
    driver.pause()
    assert stopped(sleeper)
    (done,) = recover(tmp_path, SystemClock(), HttpTransport())
    assert (done.undo.restored, done.undo.sentence) == (True, f"process {sleeper.pid} goes on")
    assert goes_on(sleeper)


def test_another_process_that_has_the_id_by_now_is_not_signalled(
    driver: PidFileProcess, sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    record = driver.record("pause")
    journal_of(tmp_path, {**record, "started": record["started"] - 1})
    driver.pause()
    assert stopped(sleeper)
    (done,) = recover(tmp_path, SystemClock(), HttpTransport())
    assert done.undo.sentence == f"process {sleeper.pid} is gone, so it is not paused"
    assert state_of(sleeper.pid) == "T"


@pytest.mark.parametrize("content", ["", "four", "999999999"])
def test_a_pid_file_without_a_process_can_do_nothing(content: str, tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(content)
    driver = PidFileProcess(tmp_path / "pid")
    assert driver.can == frozenset()
    with pytest.raises(DriverFailed, match="pid"):
        driver.pause()


def test_what_has_a_pid_file_only_is_never_ended(driver: PidFileProcess, sleeper: subprocess.Popen[bytes]) -> None:
    for act in (driver.stop, driver.kill, driver.kill_core, driver.start, driver.cut_network):
        with pytest.raises(DriverFailed, match="may be paused, not ended"):
            act()
    assert sleeper.poll() is None


def test_descendants_are_all_below_and_nobody_else() -> None:
    child = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", f"{child}; print(p.pid, flush=True); time.sleep(60)"], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    grandchild = int(parent.stdout.readline())
    try:
        assert [found for found, _ in descendants(parent.pid)] == [grandchild]
        assert start_ticks(grandchild) is not None
    finally:
        subprocess.run(["kill", "-9", str(grandchild), str(parent.pid)], check=True)
        parent.wait()
        parent.stdout.close()
    assert start_ticks(parent.pid) is None
    assert environment_of(parent.pid) == {}
