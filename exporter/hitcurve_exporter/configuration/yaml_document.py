"""Typed access to a YAML file whose errors say the line, the key, what was found and what is wanted."""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar

from hitcurve.errors import UsageError
from hitcurve.yaml_lines import Place, load_optional_yaml
from hitcurve_exporter.configuration.durations import parse_duration

__all__ = [
    "Section",
    "Unsuitable",
    "a_flag",
    "a_text",
    "a_whole_number",
    "read_document",
    "read_optional_document",
    "some_duration",
]

Value = TypeVar("Value")
_CREDENTIALS: Final = re.compile(r"(^|//)[^/\s]*@")


class Unsuitable(ValueError):
    """A value is not what its key wants; the message completes "must be"."""


def read_document(path: Path) -> "Section":
    """The top-level mapping of a YAML file; UsageError where it cannot be read or is not one mapping."""
    document = read_optional_document(path)
    if document is None:
        raise UsageError(f"{path}:1: the file is empty; it needs at least 'targets:' with one '- url: http://…'.")
    return document


def read_optional_document(path: Path) -> "Section | None":
    """The same, ``None`` where the file is empty."""
    place = load_optional_yaml(path)
    return None if place is None else _section(place)


def _section(place: Place) -> "Section":
    if not isinstance(place.parts, dict):
        raise UsageError(f"{place.path}:{place.line}: the file must be a mapping such as 'interval: 15s'.")
    return Section(place, place.parts)


class Section:
    """One mapping of the document; its keys are read one by one, as they stand there."""

    def __init__(self, place: Place, values: Mapping[str, Place]) -> None:
        self.line = place.line
        self._file = place.path
        self._values = values

    def wrong(self, sentence: str, line: int | None = None) -> UsageError:
        """An error at ``line``, or at the start of this mapping."""
        return UsageError(f"{self._file}:{self.line if line is None else line}: {sentence}")

    def wrong_at(self, key: str, sentence: str) -> UsageError:
        """An error at the value of ``key``."""
        found = self._values.get(key)
        return self.wrong(sentence, None if found is None else found.line)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys as written."""
        return tuple(self._values)

    def allow_only(self, known: Iterable[str]) -> None:
        """UsageError for the first key that is not known, with the nearest known one."""
        names = list(known)
        for name, place in self._values.items():
            if name not in names:
                near = get_close_matches(name, names, n=1)
                cure = f"did you mean '{near[0]}'?" if near else f"known keys are {', '.join(names)}."
                raise self.wrong(f"unknown key '{name}'; {cure}", place.key_line)

    def read(self, key: str, convert: Callable[[str], Value], default: Value, *, secret: bool = False) -> Value:
        """The converted scalar of ``key``, or ``default`` where the key is missing; no error shows a secret."""
        found = self._values.get(key)
        return default if found is None else self._convert(key, found, convert, secret=secret)

    def read_list(self, key: str, convert: Callable[[str], Value]) -> tuple[Value, ...] | None:
        """The converted scalars of the list under ``key``; ``None`` where the key is missing."""
        found = self._values.get(key)
        if found is None:
            return None
        if not isinstance(found.parts, list):
            raise self.wrong(f"'{key}' must be a list such as [30s, 5m]; got {_shown(found)}", found.line)
        return tuple(self._convert(key, entry, convert) for entry in found.parts)

    def sections(self, key: str, example: str) -> tuple["Section", ...]:
        """The mappings in the list under ``key``; none where the key is missing."""
        found = self._values.get(key)
        if found is None:
            return ()
        wanted = f"'{key}' must be a list of entries such as '{example}'"
        if not isinstance(found.parts, list):
            raise self.wrong(f"{wanted}; got {_shown(found)}", found.line)
        sections = []
        for entry in found.parts:
            if not isinstance(entry.parts, dict):
                raise self.wrong(f"{wanted}; got {_shown(entry)}", entry.line)
            sections.append(Section(entry, entry.parts))
        return tuple(sections)

    def section(self, key: str, example: str) -> "Section | None":
        """The mapping under ``key``; ``None`` where the key is missing."""
        found = self._values.get(key)
        if found is None:
            return None
        if not isinstance(found.parts, dict):
            raise self.wrong(f"'{key}' must be a mapping such as '{example}'; got {_shown(found)}", found.line)
        return Section(found, found.parts)

    def _convert(self, key: str, place: Place, convert: Callable[[str], Value], *, secret: bool = False) -> Value:
        if place.written is None:
            raise self.wrong(f"'{key}' must be a single value; got {_shown(place)}", place.line)
        try:
            return convert(place.written)
        except Unsuitable as error:
            got = "something else, not shown here" if secret else _shown(place)
            raise self.wrong(f"'{key}' must be {error}; got {got}", place.line) from None if secret else error


def some_duration(text: str) -> float:
    """Seconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Unsuitable("a duration such as 15s") from error


def a_whole_number(least: int) -> Callable[[str], int]:
    """A converter for whole numbers from ``least`` on."""

    def convert(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > 15 or int(text) < least:
            raise Unsuitable(f"a whole number, {least} or more")
        return int(text)

    return convert


def a_flag(text: str) -> bool:
    """``true`` or ``false``."""
    if text.lower() not in ("true", "false"):
        raise Unsuitable("true or false")
    return text.lower() == "true"


def a_text(text: str) -> str:
    """A text that is not empty."""
    if not text.strip():
        raise Unsuitable("a text that is not empty")
    return text


def _shown(place: Place) -> str:
    if place.written is not None:
        return f"'{without_credentials(place.written)}'" if place.written else "nothing"
    return "a list" if isinstance(place.parts, list) else "a mapping"


def without_credentials(text: str) -> str:
    """A text that may be an address, without its user name and password."""
    return _CREDENTIALS.sub(r"\1…@", text)
