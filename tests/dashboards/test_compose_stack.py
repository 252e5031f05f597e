"""The profile sim of compose.yaml, really started in a Docker Engine.

Images cannot be had here, so each service runs from an empty one into which this machine's programs and this
repository are mounted; users, read-only roots, networks, mounts and commands are the file's own.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from hitcurve.errors import EnvironmentFailed
from hitcurve_dashboards.lint.execute import HttpPrometheus

pytestmark = [pytest.mark.docker, pytest.mark.real_prometheus]

IMAGE = "hitcurve-test-base:local"
PROJECT = "hitcurve-test"
SERVICES = ("sim-0", "sim-1", "exporter-sim", "load-sim-0", "load-sim-1", "locust", "locust-worker", "prometheus")
PROMETHEUS_USER, OUR_USER = 65534, 65532
OWNERS = {"prometheus": PROMETHEUS_USER, "runs": OUR_USER}
STACK_DEADLINE_S, DATA_DEADLINE_S = 50.0, 30.0


def docker(socket_file: str, *arguments: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["docker", "-H", socket_file, *arguments], input=data, capture_output=True, timeout=30)


def empty_root() -> bytes:
    """A root file system of links and empty folders; some belong to those who write there, as in their images."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("usr", "etc", "tmp", *OWNERS):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            folder.uid = folder.gid = OWNERS.get(name, 0)
            archive.addfile(folder)
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
    return buffer.getvalue()


class Override(yaml.SafeDumper):
    """Writes ``None`` as Compose's tag for "leave out"."""


Override.add_representer(type(None), lambda dumper, _: dumper.represent_scalar("!reset", "null"))


def override(repository: Path, prometheus: Path) -> str:
    """What replaces the images: the empty one with this machine mounted, its Python and its Prometheus."""
    folders = {"/usr", sys.base_prefix, str(repository)}
    mounted = [f"{folder}:{folder}:ro" for folder in sorted(folders) if not folder.startswith("/usr/")]
    python = str(Path(sys.prefix) / "bin" / "python")
    services: dict[str, Any] = {
        name: {
            "image": IMAGE,
            "build": None,
            "entrypoint": [python, "-m", "hitcurve"],
            "volumes": list(mounted),
            "environment": {"PYTHONDONTWRITEBYTECODE": "1"},
        }
        for name in (*SERVICES, "chaos-sim")
    }
    for name in ("locust", "locust-worker"):
        services[name]["entrypoint"] = [python, "-m", "locust", "-f", "/etc/hitcurve/locustfile.py"]
    services["prometheus"]["entrypoint"] = [shutil.which("prometheus")]
    services["prometheus"]["volumes"] += [
        f"{prometheus / name}:/etc/prometheus/{name}:ro" for name in ("prometheus.yml", "rules")
    ]
    for name, port, path in (
        ("sim-0", 8000, "health"),
        ("sim-1", 8000, "health"),
        ("exporter-sim", 9477, "-/ready"),
        ("locust", 8089, ""),
        ("prometheus", 9090, "-/ready"),
    ):
        code = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/{path}', timeout=2)"
        services[name]["healthcheck"] = {"test": ["CMD", python, "-c", code], "interval": "1s"}
    return yaml.dump({"services": services}, Dumper=Override)


def quickened(shipped: Path, folder: Path) -> None:
    """Copies of configuration and rules that do everything each second."""
    (folder / "rules").mkdir()
    for file in (shipped / "prometheus.yml", *(shipped / "rules").glob("*.yml")):
        quick = re.sub(r"interval: \d+s", "interval: 1s", file.read_text())
        (folder / file.relative_to(shipped)).write_text(quick)


@dataclass
class Stack:
    """The running project."""

    compose: list[str]
    environment: dict[str, str]

    @cached_property
    def prometheus(self) -> HttpPrometheus:
        return HttpPrometheus(f"http://{self.address('prometheus', 9090)}")

    def address(self, service: str, port: int) -> str:
        """Where the Docker Engine published a port; it chooses a free one itself."""
        found = self.call("port", service, str(port))
        assert found.returncode == 0, found.stderr
        return found.stdout.strip()

    def locust(self) -> dict[str, Any]:
        """What Locust's master knows of its workers and requests."""
        url = f"http://{self.address('locust', 8089)}/stats/requests"
        with urllib.request.urlopen(url, timeout=DATA_DEADLINE_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self.compose, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=STACK_DEADLINE_S + 10, env=self.environment
        )

    def values(self, query: str) -> dict[str, float]:
        """Value by target."""
        with suppress(EnvironmentFailed):
            return {
                one["metric"].get("target", ""): float(one["value"][1]) for one in self.prometheus.query(query)
            }
        return {}

    def wait(self, query: str, targets: set[str]) -> dict[str, float]:
        """The answer once it has a value for each of the targets."""
        deadline = time.monotonic() + DATA_DEADLINE_S
        while not (found := self.values(query)).keys() >= targets:
            assert time.monotonic() < deadline, f"{query} never had values for {targets}, only {found}"
            time.sleep(0.5)
        return found


@pytest.fixture(scope="module")
def stack(
    docker_engine: str, compose_binary: str, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """Profile sim, up and healthy; Prometheus scrapes each second instead of every fifteen."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed; on Debian it is the package prometheus")
    assert docker(docker_engine, "import", "-", IMAGE, data=empty_root()).returncode == 0
    folder = tmp_path_factory.mktemp("compose")
    quickened(repository / "dashboards/prometheus", folder)
    file = folder / "override.yaml"
    file.write_text(override(repository, folder))
    ports = dict.fromkeys(("SIM_0_PORT", "SIM_1_PORT", "EXPORTER_PORT", "LOCUST_PORT", "PROMETHEUS_PORT"), "0")
    environment = {**os.environ, "DOCKER_HOST": docker_engine, **ports}
    files = ["-f", str(repository / "compose.yaml"), "-f", str(file)]
    running = Stack(
        [compose_binary, "--project-name", PROJECT, *files, "--profile", "sim"],
        environment,
    )
    try:
        wait = f"--wait-timeout={STACK_DEADLINE_S:.0f}"
        started = running.call("up", "--detach", "--no-build", "--pull=never", "--wait", wait, *SERVICES)
        assert started.returncode == 0, started.stderr + running.call("logs", "--no-color", "--tail=20").stdout
        yield running
    finally:
        running.call("down", "--volumes", "--timeout=2")


def test_the_fleet_shows_both_engines_with_traffic(stack: Stack) -> None:
    both = {"sim-0", "sim-1"}
    assert stack.wait("hitcurve_up", both) == {"sim-0": 1.0, "sim-1": 1.0}
    stack.wait("increase(hitcurve_hit_tokens_total[10s]) > 0", both)
    assert stack.wait('vllm:kv_cache_usage_perc{job="vllm"}', both).keys() == both


def test_only_the_engines_of_the_profile_are_targets(stack: Stack) -> None:
    assert stack.wait('up{job="vllm"}', {"sim-0", "sim-1"}) == {"sim-0": 1.0, "sim-1": 1.0}
    assert stack.wait('up{job="hitcurve"}', {""}) == {"": 1.0}


def test_every_dashboard_query_is_answered(stack: Stack) -> None:
    stack.wait("increase(hitcurve_requests_total[20s]) > 0", {"sim-0", "sim-1"})
    stack.wait(
        "histogram_quantile(0.5, sum by (le, target) (rate(vllm:time_to_first_token_seconds_bucket[20s]))) > 0",
        {"sim-0", "sim-1"},
    )
    for name in ("model:vllm_hit_tokens:rate5m", "model:hitcurve_hit_tokens:rate5m"):
        stack.wait(name, {""})
    command = [sys.executable, "-m", "hitcurve", "dashboards", "check", "--rate-interval", "20s"]
    checked = subprocess.run(
        [*command, "--prometheus", stack.prometheus.url], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout


def test_locust_sends_from_as_many_workers_as_asked(stack: Stack) -> None:
    scaled = stack.call(
        "up", "--detach", "--no-build", "--no-recreate", "--scale=locust-worker=2", "locust-worker"
    )
    assert scaled.returncode == 0, scaled.stderr
    deadline = time.monotonic() + DATA_DEADLINE_S
    while (found := stack.locust())["worker_count"] < 2 or found["stats"][-1]["num_requests"] == 0:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    assert found["stats"][-1]["num_failures"] == 0, found


def test_roots_are_read_only_and_users_are_not_root(stack: Stack) -> None:
    for service in ("sim-0", "exporter-sim"):
        code = "import os; print(os.getuid()); open('/etc/x', 'w')"
        tried = stack.call("exec", "-T", service, str(Path(sys.prefix) / "bin" / "python"), "-c", code)
        assert tried.stdout.strip() == "65532", tried.stderr
        assert "Read-only file system" in tried.stderr


def test_prometheus_sees_which_scenario_of_a_chaos_run_runs(stack: Stack) -> None:
    started = stack.call("run", "--detach", "--use-aliases", "--no-deps", "chaos-sim")
    assert started.returncode == 0, started.stderr
    run = started.stdout.split()[-1]
    try:
        stack.wait('hitcurve_chaos_active{job="hitcurve",scenario="reset-prefix-cache"} == 1', {""})
    finally:
        print(docker(stack.environment["DOCKER_HOST"], "logs", run).stderr.decode())
        docker(stack.environment["DOCKER_HOST"], "rm", "--force", run)
