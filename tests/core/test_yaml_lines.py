"""YAML files that grow without bound when every alias is written out."""

from pathlib import Path

import pytest

from hitcurve.errors import UsageError
from hitcurve.yaml_lines import load_yaml


def written(path: Path, levels: int) -> Path:
    lines = ["k0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    file = path / "grows.yaml"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_aliases_are_followed(tmp_path: Path) -> None:
    place = load_yaml(written(tmp_path, 3), example="an example")
    assert place.value == {"k0": ["x"] * 10, "k1": [["x"] * 10] * 10, "k2": [[["x"] * 10] * 10] * 10}


def test_a_billion_values_by_aliases_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, 60)
    with pytest.raises(UsageError) as refusal:
        load_yaml(file, example="an example")
    assert str(refusal.value) == f"{file}:1: aliases make it more than 100,000 values; write them plainly."


def test_a_value_inside_itself_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "loop.yaml"
    file.write_text("a: &a [*a]", encoding="utf-8")
    with pytest.raises(UsageError, match="values are nested too deep"):
        load_yaml(file, example="an example")
