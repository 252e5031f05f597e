"""Typed access to a YAML file whose errors say the line, the key, what was found and what is wanted."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import yaml

from hitcurve.errors import UsageError
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
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"cannot read the configuration {path} ({reason}); name a readable YAML file with --config."
        ) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise UsageError(
            f"{path}:{line}: this is not valid YAML ({error.problem}); correct the indentation or quoting there."
        ) from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}:1: this is not valid YAML ({_first_line(error)}); save it as text.") from error
    if node is None:
        return None
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(f"{path}:{_line(node)}: the file must be a mapping such as 'interval: 15s'.")
    return Section(str(path), node)


class Section:
    """One mapping of the document. Keys are read one by one; ``reject_others`` names what was not read."""

    def __init__(self, file: str, node: yaml.MappingNode) -> None:
        self.file = file
        self.line = _line(node)
        self._values: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in self._values:
                first = _line(self._values[name][0])
                raise self.wrong(f"'{name}' is given twice, first on line {first}; keep one of them.", key)
            self._values[name] = (key, value)

    def wrong(self, sentence: str, node: yaml.Node | None = None) -> UsageError:
        """An error at ``node``, or at the start of this mapping."""
        return UsageError(f"{self.file}:{_line(node) if node is not None else self.line}: {sentence}")

    def wrong_at(self, key: str, sentence: str) -> UsageError:
        """An error at the value of ``key``."""
        found = self._values.get(key)
        return self.wrong(sentence, found[1] if found else None)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys as written."""
        return tuple(self._values)

    def allow_only(self, known: Iterable[str]) -> None:
        """UsageError for the first key that is not known, with the nearest known one."""
        names = list(known)
        for name, (key, _) in self._values.items():
            if name not in names:
                near = get_close_matches(name, names, n=1)
                cure = f"did you mean '{near[0]}'?" if near else f"known keys are {', '.join(names)}."
                raise self.wrong(f"unknown key '{name}'; {cure}", key)

    def read(self, key: str, convert: Callable[[str], Value], default: Value, *, secret: bool = False) -> Value:
        """The converted scalar of ``key``, or ``default`` where the key is missing; no error shows a secret."""
        found = self._values.get(key)
        return default if found is None else self._convert(key, found[1], convert, secret=secret)

    def read_list(self, key: str, convert: Callable[[str], Value]) -> tuple[Value, ...] | None:
        """The converted scalars of the list under ``key``; ``None`` where the key is missing."""
        found = self._values.get(key)
        if found is None:
            return None
        node = found[1]
        if not isinstance(node, yaml.SequenceNode):
            raise self.wrong(f"'{key}' must be a list such as [30s, 5m]; got {_shown(node)}", node)
        return tuple(self._convert(key, entry, convert) for entry in node.value)

    def sections(self, key: str, example: str) -> tuple["Section", ...]:
        """The mappings in the list under ``key``; none where the key is missing."""
        found = self._values.get(key)
        if found is None:
            return ()
        node = found[1]
        wanted = f"'{key}' must be a list of entries such as '{example}'"
        if not isinstance(node, yaml.SequenceNode):
            raise self.wrong(f"{wanted}; got {_shown(node)}", node)
        sections = []
        for entry in node.value:
            if not isinstance(entry, yaml.MappingNode):
                raise self.wrong(f"{wanted}; got {_shown(entry)}", entry)
            sections.append(Section(self.file, entry))
        return tuple(sections)

    def section(self, key: str, example: str) -> "Section | None":
        """The mapping under ``key``; ``None`` where the key is missing."""
        found = self._values.get(key)
        if found is None:
            return None
        if not isinstance(found[1], yaml.MappingNode):
            raise self.wrong(f"'{key}' must be a mapping such as '{example}'; got {_shown(found[1])}", found[1])
        return Section(self.file, found[1])

    def _convert(
        self, key: str, node: yaml.Node, convert: Callable[[str], Value], *, secret: bool = False
    ) -> Value:
        if not isinstance(node, yaml.ScalarNode):
            raise self.wrong(f"'{key}' must be a single value; got {_shown(node)}", node)
        try:
            return convert(node.value)
        except Unsuitable as error:
            got = "something else, not shown here" if secret else _shown(node)
            raise self.wrong(f"'{key}' must be {error}; got {got}", node) from None if secret else error


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


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return f"'{node.value}'" if node.value else "nothing"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
