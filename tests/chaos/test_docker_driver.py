"""The Docker driver against a real Docker Engine: what it does to a container, and that nothing is left of it."""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitcurve_chaos.access import DockerAccess
from hitcurve_chaos.calls import HttpTransport
from hitcurve_chaos.carry_out import RunRequest, carry_out
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.drivers.docker_container import DockerContainer
from hitcurve_chaos.drivers.driver import DriverFailed
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.journal import JournalFile
from hitcurve_chaos.parameters import resolve
from hitcurve_chaos.progress import Silent
from hitcurve_chaos.recover import recover
from hitcurve_chaos.scenarios.drills import drill
from hitcurve_chaos.scenarios.scenario import Bench, Story
from hitcurve_chaos.suite import Entry, Suite, plan_suite
from hitcurve_chaos.targets import Target, describe

pytestmark = pytest.mark.docker
docker = pytest.importorskip("docker", reason="the docker SDK is not installed; pip install 'hitcurve[docker]'")

IMAGE = "hitcurve-chaos-test:local"
NETWORK = "hitcurve-chaos-test"
SERVICE_LABELS = {"com.docker.compose.service": "engine", "com.docker.compose.project": "chaos-test"}
START_S = 20.0
SETTINGS = {"recover_within": 30, "baseline_within": 30, "paused": 0.5, "cut": 0.5, "memory_share": 1.5}


@pytest.fixture(scope="module")
def client(docker_engine: str) -> Any:
    """A client of the Docker Engine: the one that runs, else one of our own."""
    return docker.DockerClient(base_url=docker_engine)


@pytest.fixture(scope="module")
def engine(client: Any, repository: Path) -> Iterator[Any]:
    """A container with the simulated engine, run by this machine's Python; the image is a few links."""
    _import_image(client)
    network = client.networks.create(NETWORK)
    folders = sorted({"/usr", sys.base_prefix, sys.prefix, str(repository)})
    python = str(Path(sys.prefix) / "bin" / "python")
    words = ["-m", "hitcurve", "engine", "--host", "0.0.0.0", "--port", "8000", "--pool-blocks", "1024"]
    container = client.containers.run(
        IMAGE,
        [python, *words, "--speed", "4"],
        detach=True,
        labels={"hitcurve.chaos": "allow", **SERVICE_LABELS},
        volumes=[f"{folder}:{folder}:ro" for folder in folders],
        environment={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        network=NETWORK,
        ports={"8000/tcp": ("127.0.0.1", _free_port())},
    )
    try:
        _await_listening(container)
        yield container
    finally:
        container.remove(force=True)
        network.remove()


def test_a_container_is_found_by_its_compose_labels_and_touched_only_with_the_opt_in(
    client: Any, engine: Any
) -> None:
    driver = DockerContainer(DockerAccess(service="engine", project="chaos-test"), lambda: client)
    assert driver.record("stop")["container"] == engine.id
    with pytest.raises(DriverFailed, match="0 containers are the service 'other'"):
        DockerContainer(DockerAccess(service="other"), lambda: client)
    bare = client.containers.create(IMAGE, "true")
    try:
        with pytest.raises(DriverFailed, match=r"does not carry the label hitcurve\.chaos=allow"):
            DockerContainer(DockerAccess(container=bare.id), lambda: client)
    finally:
        bare.remove(force=True)


def test_pause_kill_memory_limit_and_network_cut_end_ok_and_leave_nothing(
    client: Any, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", _address(client))
    before = _state(engine)
    names = ["pause", "container-starved", "container-cut-off", "restart-term", "restart-kill"]
    planned = plan_suite(Suite("s", "S", [Entry(name) for name in names]), SETTINGS, 7)
    target = _target(engine, docker=DockerAccess(container=engine.id))
    results = carry_out(RunRequest(target, planned, tmp_path / "run", 7), Silent())
    assert results.skipped == []
    assert [(v.scenario, v.verdict, v.problems) for v in results.verdicts] == [(name, "ok", []) for name in names]
    assert _state(engine) == before
    numbers = {verdict.scenario: verdict.numbers for verdict in results.verdicts}
    assert numbers["pause"]["answered_while_paused"] == 0
    assert numbers["container-cut-off"]["answered_while_cut"] == 0
    assert numbers["restart-kill"]["restarts_noticed"] == 1
    assert numbers["container-starved"]["limit_bytes"] >= numbers["container-starved"]["used_bytes"]


@pytest.mark.parametrize(
    ("action", "dies"),
    [("pause", False), ("kill", False), ("memory_limit", False), ("memory_limit", True), ("cut_network", False)],
)
def test_recover_restores_a_container_that_a_dead_run_has_left(
    action: Any, dies: bool, client: Any, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", _address(client))
    before = _state(engine)
    driver = DockerContainer(DockerAccess(container=engine.id), lambda: client)
    record = driver.record(action)
    target = _target(engine)
    journal = JournalFile(tmp_path, SystemClock())
    journal.write("one", "fault_injecting", record=json.loads(json.dumps(record)), target=describe(target))
    acts = {"pause": driver.pause, "kill": driver.kill, "cut_network": driver.cut_network}
    if action == "memory_limit":
        driver.limit_memory(1.5)
    else:
        acts[action]()
    if dies:
        engine.kill()
        engine.wait(timeout=START_S)
    assert _state(engine) != before
    (done,) = recover(tmp_path, SystemClock(), HttpTransport())
    assert (done.undo.restored, done.undo.sentence) == (True, f"container {engine.name} is as it was")
    _await_listening(engine)
    assert _state(engine) == before
    assert recover(tmp_path, SystemClock(), HttpTransport()) == []


def test_a_container_that_a_scenario_kills_is_told_of_and_runs_again_at_the_end(
    client: Any, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", _address(client))

    def die(bench: Bench, numbers: dict[str, Any]) -> Injection:
        engine.kill()
        engine.wait(timeout=START_S)
        return Injection("applied", "the container died of it")

    story = Story("It dies.", "Nothing.", "None.", "None.")
    deadly = drill(name="deadly", title="D", expected="E.", act=die, expectations=(), story=story, needs=())
    planned = [(deadly, resolve(deadly.all_parameters(), {"recover_within": "20s"}))]
    target = _target(engine, docker=DockerAccess(container=engine.id))
    assert DockerContainer(DockerAccess(container=engine.id)).ending() is None
    (verdict,) = carry_out(RunRequest(target, planned, tmp_path / "run", 7), Silent()).verdicts
    assert (verdict.verdict, verdict.restored) == ("bad", True)
    assert verdict.problems[0] == (
        "the engine completed no request after the fault: it ended with exit code 137 in its container"
    )
    assert HttpTransport().send("GET", f"{target.engine}/health").status == 200


def _target(engine: Any, **changes: Any) -> Target:
    engine.reload()
    port = engine.attrs["NetworkSettings"]["Ports"]["8000/tcp"][0]["HostPort"]
    return Target("container", f"http://127.0.0.1:{port}", "simulated", **changes)


def _state(engine: Any) -> tuple[Any, ...]:
    """What a fault changes: status, limits, networks and their aliases."""
    engine.reload()
    host, total = engine.attrs["HostConfig"], engine.client.info()["MemTotal"]
    networks = {
        name: sorted(a for a in values["Aliases"] or () if not engine.id.startswith(a))
        for name, values in engine.attrs["NetworkSettings"]["Networks"].items()
    }
    memory = host["Memory"] or total
    # No limit and one of all there is are the same to the container, and an engine takes no limit away again.
    return engine.status, min(memory, total), networks


def _await_listening(engine: Any) -> None:
    url = _target(engine).engine
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(Exception):
            if HttpTransport().send("GET", f"{url}/health", timeout_s=1).status == 200:
                return
        assert time.monotonic() < deadline, engine.logs().decode()[-2000:]
        time.sleep(0.1)


def _import_image(client: Any) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("usr", "etc", "tmp"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
    client.api.import_image_from_data(buffer.getvalue(), repository="hitcurve-chaos-test", tag="local")


def _address(client: Any) -> str:
    """The engine's address, for the driver of a run, which reads DOCKER_HOST."""
    return f"unix://{client.api.get_adapter(client.api.base_url).socket_path}"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_runner_that_is_killed_leaves_no_container_paused_stopped_or_cut_off(
    client: Any, engine: Any, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", _address(client))
    kills = os.environ.get("HITCURVE_CONTAINER_KILLS", "2")
    script = repository / "tests" / "chaos" / "kills" / "kill_runner.py"
    command = [sys.executable, str(script), "--kills", kills, "--seed", "5", "--container", engine.name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    assert f"{kills} kills; " in done.stdout
