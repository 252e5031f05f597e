"""Kinds of text that are new in every request and so end a shared prefix when they stand in it."""

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["CAUSES", "Volatile", "volatile_at"]

_WORDS = "req|request|trace|span|session|run|msg|message|call|user|conv|conversation|chat|job|id"

CAUSES: Final = {
    "timestamp": re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"),
    "uuid": re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
    "request id": re.compile(rf"\b(?:{_WORDS})[-_](?=\w*\d)[\w-]+", re.IGNORECASE),
    "unix time": re.compile(r"\b1\d{9}(?:\d{3}|\.\d+)?\b"),
    "date": re.compile(r"\b(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4})\b"),
    "time of day": re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?\b"),
    "hexadecimal id": re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"),
    "number": re.compile(r"\b\d+(?:\.\d+)?\b"),
}
"""By name, the most specific kind first."""

_REACH = 80


@dataclass(frozen=True, slots=True)
class Volatile:
    """Characters ``start`` to ``end`` of a text and what kind of thing they are."""

    cause: str
    start: int
    end: int


def volatile_at(text: str, at: int, cause: str | None = None) -> Volatile | None:
    """What holds the character ``at`` or the next one (tokens may begin with a space); None: nothing known."""
    begin = max(at - _REACH, 0)
    window = text[begin : at + _REACH]
    for name in CAUSES if cause is None else (cause,):
        for match in CAUSES[name].finditer(window):
            start, end = match.start() + begin, match.end() + begin
            if start <= at + 1 and at < end:
                return Volatile(name, start, end)
    return None
