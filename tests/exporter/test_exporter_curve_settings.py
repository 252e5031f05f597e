"""The section ``curve`` of the configuration."""

from pathlib import Path

import pytest

from hitcurve.curve import CurveConfig
from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.load import configuration_from_file

REST = "targets:\n  - url: http://127.0.0.1:8000\ncurve:\n"


def read(folder: Path, curve: str) -> CurveConfig:
    file = folder / "exporter.yaml"
    file.write_text(REST + curve, encoding="utf-8")
    return configuration_from_file(file).curve


def test_settings_are_read_as_what_they_are(tmp_path: Path) -> None:
    text = "  step_rate: 0.2\n  lasting_s: 1m\n  accept_after_s: 90\n  flat_scrapes: 6\n  ceiling: 0.9\n"
    assert read(tmp_path, text) == CurveConfig(
        step_rate=0.2, lasting_s=60.0, accept_after_s=90.0, flat_scrapes=6, ceiling=0.9
    )


@pytest.mark.parametrize(
    ("curve", "sentence"),
    [
        ("  step_rat: 0.2\n", "exporter.yaml:4: unknown key 'step_rat'; did you mean 'step_rate'?"),
        ("  step_rate: much\n", "exporter.yaml:4: 'step_rate' must be a number, 0 or more; got 'much'"),
        ("  step_rate: .inf\n", "exporter.yaml:4: 'step_rate' must be a number, 0 or more; got '.inf'"),
        ("  flat_scrapes: 1.5\n", "exporter.yaml:4: 'flat_scrapes' must be a whole number, 1 or more; got '1.5'"),
        (
            "  low_rate: 0.1\n  step_rate: 2\n",
            "exporter.yaml:5: in 'curve', step_rate must lie between 0 and 1, not 2.0.",
        ),
        ("  - low_rate\n", "exporter.yaml:4: 'curve' must be a mapping such as 'step_rate: 0.1'; got a list"),
    ],
)
def test_a_mistake_names_line_key_and_cure(tmp_path: Path, curve: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, curve)
    assert str(caught.value).replace(f"{tmp_path}/", "") == sentence
