"""The environment of a real vLLM: what is said where it cannot be made."""

import platform
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.demo.vllm_env import VLLM_VERSION, default_folder, find_vllm_python, main, version_in


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
