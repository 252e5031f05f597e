"""A YAML document with the line of every value, so that a complaint can name the place."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hitcurve.errors import UsageError

if TYPE_CHECKING:
    import yaml

__all__ = ["Place", "load_optional_yaml", "load_yaml"]

_MOST_VALUES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Place:
    """One value of the document and where it stands."""

    path: Path
    line: int
    label: str
    """How the file spells the way to it: ``targets[0].engine``."""
    value: Any
    parts: "dict[str, Place] | list[Place] | None" = None
    written: str | None = None
    """A single value as it stands there: ``010``, which YAML takes for 8."""
    key_line: int | None = None
    """Where the key of this value stands; ``None`` for what has no key."""

    def wrong(self, what: str, cure: str) -> NoReturn:
        """Raise UsageError: what is wrong with this value, where, and what to do."""
        raise UsageError(f"{self.path}:{self.line}: {self.label or 'the file'} {what}; {cure}.")

    def mapping(self, known: tuple[str, ...]) -> "dict[str, Place]":
        """The entries of a mapping; unknown keys are an error that lists the known ones."""
        if not isinstance(self.parts, dict):
            self.wrong(
                "is not a mapping", f"give it keys of {', '.join(known)}" if known else "write 'key: value'"
            )
        for key, place in self.parts.items():
            if known and key not in known:
                place.wrong("is not a known key", f"the keys here are {', '.join(known)}")
        return self.parts

    def sequence(self) -> "list[Place]":
        """The items of a list."""
        if not isinstance(self.parts, list):
            self.wrong("is not a list", "write one '- ' item a line below it")
        return self.parts

    def text(self) -> str:
        """A string that is not empty."""
        if not isinstance(self.value, str) or not self.value.strip():
            self.wrong("is not a text", "write a text, in quotes where it looks like a number")
        return self.value.strip()

    def flag(self) -> bool:
        """true or false."""
        if not isinstance(self.value, bool):
            self.wrong(f"is {self.value!r}", "write true or false")
        return self.value


def load_yaml(path: Path, *, example: str) -> Place:
    """The document of ``path``; UsageError where it cannot be read or is not YAML.

    ``example`` is the file that shows what belongs there.
    """
    place = load_optional_yaml(path)
    if place is None:
        raise UsageError(f"{path}:1: the file is empty; see {example} for what belongs there.")
    return place


def load_optional_yaml(path: Path) -> Place | None:
    """The same, ``None`` where the file is empty."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{path} cannot be read ({reason}); name a YAML file.") from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return None
        if _values(node, {}) > _MOST_VALUES:
            raise UsageError(f"{path}:1: aliases make it more than {_MOST_VALUES:,} values; write them plainly.")
        return _place(path, "", node, yaml.SafeLoader(""))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise UsageError(
            f"{path}:{line}: not YAML ({error.problem}); check indentation, colons and quotes."
        ) from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}:1: not YAML ({error}); save it as plain UTF-8 text.") from error
    except RecursionError:
        raise UsageError(f"{path}:1: values are nested too deep; write them plainly.") from None


def _values(node: "yaml.Node", known: dict[int, int]) -> int:
    """Values below ``node`` where every alias is written out, without writing them out."""
    import yaml

    if id(node) not in known:
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        known[id(node)] = 1 + sum(_values(child, known) for child in children)
    return known[id(node)]


def _place(path: Path, label: str, node: "yaml.Node", loader: "yaml.SafeLoader") -> Place:
    import yaml

    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        parts = dict(_entries(path, label, node, loader))
        return Place(path, line, label, {key: place.value for key, place in parts.items()}, parts)
    if isinstance(node, yaml.SequenceNode):
        items = [_place(path, f"{label}[{i}]", item, loader) for i, item in enumerate(node.value)]
        return Place(path, line, label, [item.value for item in items], items)
    return Place(path, line, label, _scalar(path, line, node, loader), written=str(node.value))


def _entries(
    path: Path, label: str, node: "yaml.MappingNode", loader: "yaml.SafeLoader"
) -> Iterator[tuple[str, Place]]:
    import yaml

    seen: set[str] = set()
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise UsageError(f"{path}:{key_node.start_mark.line + 1}: a key is a single value; write it plainly.")
        key = str(key_node.value)
        place = _place(path, f"{label}.{key}" if label else key, value_node, loader)
        place = replace(place, key_line=key_node.start_mark.line + 1)
        if key in seen:
            place.wrong("stands there twice", "keep one of them")
        seen.add(key)
        yield key, place


def _scalar(path: Path, line: int, node: "yaml.Node", loader: "yaml.SafeLoader") -> Any:
    try:
        return loader.construct_object(node)
    except ValueError as error:
        # 2026-13-45 looks like a date and is none.
        raise UsageError(f"{path}:{line}: {node.value!r} is not a value ({error}); put it in quotes.") from error
