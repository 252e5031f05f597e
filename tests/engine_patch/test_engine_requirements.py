"""Installing the patch into an engine's environment brings nothing along, and importing it needs nothing."""

import os
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

IMPORT_ALL = """
import importlib, pkgutil, sys
import hitcurve_engine
assert not [path for path in sys.path if "site-packages" in path], sys.path
names = [found.name for found in pkgutil.walk_packages(hitcurve_engine.__path__, "hitcurve_engine.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def test_the_built_package_requires_nothing_for_itself_or_the_extra_engine() -> None:
    """Of the installed distribution, whose metadata the build backend wrote."""
    requirements = requires("hitcurve")
    assert requirements
    for requirement in requirements:
        assert re.search(r"extra == ['\"][\w-]+['\"]", requirement), f"{requirement} is not of an extra"
        assert not re.search(r"extra == ['\"]engine['\"]", requirement), (
            f"{requirement} comes with hitcurve[engine]"
        )


def test_every_module_imports_without_any_installed_package(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", IMPORT_ALL],
        env={"PYTHONPATH": os.pathsep.join([str(repository / "engine_patch"), str(repository)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40


def test_the_image_is_vllms_own_with_one_wheel_and_no_other_package(repository: Path) -> None:
    lines = (repository / "engine_patch" / "Dockerfile").read_text(encoding="utf-8").splitlines()
    last_stage = lines[max(place for place, line in enumerate(lines) if line.startswith("FROM")) :]
    assert "ARG VLLM_IMAGE=vllm/vllm-openai:v0.32.0" in lines
    assert last_stage[0] == "FROM ${VLLM_IMAGE}"
    (install,) = [line for line in last_stage if "pip install" in line]
    assert {"--no-deps", "--no-index"} <= set(install.split())
