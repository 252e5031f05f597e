"""Fast reading of a few families out of a Prometheus text or OpenMetrics page.

Only lines of wanted names are parsed, so a page costs little more than splitting it. Format: Prometheus text
exposition 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats) and OpenMetrics 1.0.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

__all__ = ["MalformedLine", "Page", "Series", "parse_page", "parse_sample"]


@dataclass(frozen=True, slots=True)
class Series:
    """One sample line."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Page:
    """The wanted part of a page.

    ``series`` maps a printed sample name to its series, identical ones once (the first wins); ``helps`` maps a
    printed name to its help text; ``repeated`` holds names of which a series was printed more than once.
    """

    series: Mapping[str, tuple[Series, ...]]
    helps: Mapping[str, str]
    repeated: frozenset[str]


class MalformedLine(ValueError):
    """A wanted line that is not a sample; ``number`` counts lines from 1."""

    def __init__(self, number: int, line: str) -> None:
        super().__init__(f"line {number} is not a sample: {line[:80]!r}")
        self.number = number


_LABEL = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(?:,|(?=\}))', re.DOTALL
)
_END_OF_LABELS = re.compile(r"[ \t]*\}")
_NUMBER = r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF]|[nN][aA][nN])"
_REST = re.compile(rf"[ \t]*({_NUMBER})(?:[ \t]+{_NUMBER})?[ \t\r]*(?:[ \t]#[^\n]*)?$")
_ESCAPE = re.compile(r'\\([\\n"])')
_ESCAPED = {"\\": "\\", "n": "\n", '"': '"'}


def parse_page(text: str, wanted: Container[str]) -> Page:
    """Parse the samples whose printed name is in ``wanted`` and their help texts; skip everything else unread.

    Raises MalformedLine for a wanted line that is not a sample.
    """
    series: dict[str, list[Series]] = {}
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    repeated: set[str] = set()
    helps: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        name, brace, _ = line.partition("{")
        if name not in wanted:
            if line[:1] == "#":
                if line[:7] == "# HELP ":
                    _keep_help(line, wanted, helps)
                continue
            name = _bare_name(name, brace)
            if name not in wanted:
                continue
        sample = parse_sample(line)
        if sample is None:
            raise MalformedLine(number, line)
        key = (sample.name, frozenset(sample.labels.items()))
        if key in seen:
            repeated.add(sample.name)
            continue
        seen.add(key)
        series.setdefault(sample.name, []).append(sample)
    return Page({name: tuple(found) for name, found in series.items()}, helps, frozenset(repeated))


def parse_sample(line: str) -> Series | None:
    """One sample line, or ``None`` where the line is none. Timestamp and exemplar are read over."""
    name, brace, rest = line.partition("{")
    labels: Mapping[str, str] = {}
    if brace:
        name = name.strip(" \t")
        parsed = _labels(rest)
        if parsed is None:
            return None
        labels, end = parsed
        rest = rest[end:]
    else:
        name, _, rest = line.strip(" \t").replace("\t", " ").partition(" ")
    found = _REST.match(rest)
    if found is None or not name:
        return None
    return Series(name, labels, float(found[1]))


def _labels(text: str) -> tuple[dict[str, str], int] | None:
    """Labels up to the closing brace and where the rest begins."""
    labels: dict[str, str] = {}
    position = 0
    while (end := _END_OF_LABELS.match(text, position)) is None:
        found = _LABEL.match(text, position)
        if found is None or found[1] in labels:
            return None
        value = found[2]
        labels[found[1]] = _unescaped(value) if "\\" in value else value
        position = found.end()
    return labels, end.end()


def _bare_name(name: str, brace: str) -> str:
    """Name of a line that is not simply ``name{``: blanks around it, or no labels."""
    if brace:
        return name.strip(" \t")
    words = name.split(None, 1)
    return words[0] if words else ""


def _keep_help(line: str, wanted: Container[str], helps: dict[str, str]) -> None:
    name, _, text = line[7:].partition(" ")
    if name in wanted:
        helps.setdefault(name, text)


def _unescaped(value: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED[found[1]], value)
