"""The section ``curve``: constants of the curve classifier, by the names of CurveConfig."""

from collections.abc import Callable
from dataclasses import fields
from typing import Final

from hitcurve.curve import CurveConfig
from hitcurve_exporter.configuration.durations import parse_duration
from hitcurve_exporter.configuration.yaml_document import Section, Unsuitable, a_whole_number

__all__ = ["read_curve_settings"]

_WHOLE: Final = {field.name for field in fields(CurveConfig) if field.type in (int, "int")}
_NAMES: Final = tuple(field.name for field in fields(CurveConfig))


def read_curve_settings(document: Section) -> CurveConfig:
    """The settings given, defaults for the others; a time may be written as a duration or as seconds."""
    section = document.section("curve", "step_rate: 0.1")
    if section is None:
        return CurveConfig()
    section.allow_only(_NAMES)
    config = CurveConfig()
    for name in section.keys:
        convert: Callable[[str], float] = _seconds if name.endswith("_s") else a_number
        value = section.read(name, a_whole_number(1) if name in _WHOLE else convert, None)
        try:
            config = CurveConfig(**{**{other: getattr(config, other) for other in _NAMES}, name: value})
        except ValueError as error:
            raise section.wrong_at(name, f"in 'curve', {error}.") from error
    return config


def a_number(text: str) -> float:
    """A number that is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise Unsuitable("a number, 0 or more")
    return number


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        return a_number(text)
