"""Durations as people write them in configuration: 500ms, 15s, 1m30s, 1h, 2d."""

import re
from typing import Final

__all__ = ["format_duration", "parse_duration"]

_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_LONGEST_S: Final = 3650 * 86_400.0
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|d|h|m|s)")


def parse_duration(text: str) -> float:
    """Seconds of ``text``; ValueError where it is not a duration above zero and of ten years at most."""
    position, seconds = 0, 0.0
    for part in _PART.finditer(text):
        if part.start() != position:
            break
        seconds += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if position != len(text) or not 0 < seconds <= _LONGEST_S:
        raise ValueError(f"'{text}' is not a duration such as 15s")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest spelling with one unit: 60 is "1m", 90 is "90s", 0.25 is "250ms"."""
    for unit in ("d", "h", "m", "s"):
        if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:.0f}{unit}"
    number, unit = (seconds, "s") if seconds >= 1 else (seconds * 1000, "ms")
    return f"{number:.3f}".rstrip("0").rstrip(".") + unit
