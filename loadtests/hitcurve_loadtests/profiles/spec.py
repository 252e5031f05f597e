"""A profile as its YAML file describes it: which traffic, of which sizes, and what hit rate to expect."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hitcurve.errors import UsageError
from hitcurve.yaml_lines import Place, load_yaml
from hitcurve_loadtests.profiles.sizes import BadSize, as_sizes, size_names
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.documents import Documents, DocumentsSizes
from hitcurve_loadtests.traffic.edited_files import EditedFiles, EditedFilesSizes
from hitcurve_loadtests.traffic.isolation import Isolated, Mix
from hitcurve_loadtests.traffic.multi_turn import MultiTurn, MultiTurnSizes
from hitcurve_loadtests.traffic.repeats import Repeats, RepeatsSizes
from hitcurve_loadtests.traffic.shared_system_prompt import SharedSystemPrompt, SharedSystemPromptSizes
from hitcurve_loadtests.traffic.traffic import Traffic
from hitcurve_loadtests.traffic.unique import Unique, UniqueSizes

__all__ = ["KINDS", "Api", "Expected", "ProfileSpec", "Route", "read_profile"]

Api = Literal["chat", "completions"]
Route = Literal["group", "adapter", "tenant"]

_EXAMPLE = "loadtests/hitcurve_loadtests/profiles/customer-service.yaml"
_KEYS = ("title", "about", "kind", "api", "sizes", "adapters", "tenants", "route", "pool_tokens", "expected")


@dataclass(frozen=True, slots=True)
class _Kind:
    sizes: type[Any]
    make: Callable[[Any, Texts], Traffic]


KINDS: dict[str, _Kind] = {
    "shared-system-prompt": _Kind(SharedSystemPromptSizes, SharedSystemPrompt),
    "multi-turn": _Kind(MultiTurnSizes, MultiTurn),
    "documents": _Kind(DocumentsSizes, Documents),
    "edited-files": _Kind(EditedFilesSizes, EditedFiles),
    "repeats": _Kind(RepeatsSizes, Repeats),
    "unique": _Kind(UniqueSizes, Unique),
}
"""What the ``kind`` of a file may be."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the file says of its traffic as it stands, in tokens that are bytes; checked by the tests.

    Of ``requests`` requests the first ``warm_up`` are not counted. ``shared`` is the share of prompt tokens that
    an earlier request began with, ``ceiling`` what an unlimited cache of ``block_size`` finds of them, ``in_pool``
    the same for a pool of the file's ``pool_tokens``.
    """

    requests: int
    warm_up: int
    block_size: int
    shared: float
    ceiling: float
    in_pool: float | None = None


@dataclass(frozen=True, slots=True)
class ProfileSpec:
    """One profile, ready to make its traffic."""

    name: str
    title: str
    about: str
    kind: str
    api: Api
    sizes: Any
    """The dataclass of the kind's sizes."""
    adapters: Mix | None = None
    tenants: Mix | None = None
    route: Route = "group"
    """Of several hosts, what stays with one of them where the run is sticky."""
    pool_tokens: int | None = None
    """The pool the profile is meant for; ``None`` where any will do that holds it."""
    expected: Expected | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    def with_sizes(self, values: Mapping[str, Any]) -> "ProfileSpec":
        """The same profile with some sizes replaced; UsageError where it has no such size."""
        if not values:
            return self
        try:
            sizes = as_sizes(KINDS[self.kind].sizes, {**self.given, **values})
        except BadSize as error:
            flag = f"--{error.name.replace('_', '-')}"
            names = ", ".join(size_names(KINDS[self.kind].sizes))
            if error.name not in size_names(KINDS[self.kind].sizes):
                raise UsageError(
                    f"the profile '{self.name}' has no {error.name} ({flag}); its sizes are {names}."
                ) from error
            raise UsageError(f"{flag} {error.problem}; {error.cure}.") from error
        return replace(self, sizes=sizes, given={**self.given, **values}, expected=None)

    def make(self, texts: Texts) -> Traffic:
        """The traffic, from its beginning."""
        traffic = KINDS[self.kind].make(self.sizes, texts)
        if self.adapters is None and self.tenants is None:
            return traffic
        return Isolated(traffic, self.adapters, self.tenants, texts)


def read_profile(path: Path) -> ProfileSpec:
    """The profile in a YAML file; UsageError with file and line where it is wrong."""
    top = load_yaml(path, example=_EXAMPLE)
    parts = top.mapping(_KEYS)
    for key in ("title", "kind"):
        if key not in parts:
            top.wrong(f"has no '{key}'", f"see {_EXAMPLE}")
    kind = parts["kind"]
    if kind.value not in KINDS:
        kind.wrong(f"is {kind.value!r}", f"give one of {', '.join(KINDS)}")
    sizes = parts.get("sizes")
    return ProfileSpec(
        name=path.stem,
        title=parts["title"].text(),
        about=parts["about"].text() if "about" in parts else "",
        kind=kind.value,
        api=_choice(parts.get("api"), "completions", ("completions", "chat")),
        sizes=_record(KINDS[kind.value].sizes, sizes) if sizes else KINDS[kind.value].sizes(),
        adapters=_record(Mix, parts["adapters"]) if "adapters" in parts else None,
        tenants=_record(Mix, parts["tenants"]) if "tenants" in parts else None,
        route=_choice(parts.get("route"), "group", ("group", "adapter", "tenant")),
        pool_tokens=_whole(parts["pool_tokens"]) if "pool_tokens" in parts else None,
        expected=_record(Expected, parts["expected"]) if "expected" in parts else None,
        given=dict(sizes.value) if sizes else {},
    )


def _record(kind: type[Any], place: Place) -> Any:
    entries = place.mapping(size_names(kind))
    try:
        return as_sizes(kind, {name: entry.value for name, entry in entries.items()})
    except BadSize as error:
        entries[error.name].wrong(error.problem, error.cure)
    except TypeError:
        place.wrong("is not complete", f"give all of {', '.join(size_names(kind))}")


def _choice(place: Place | None, default: Any, choices: tuple[str, ...]) -> Any:
    if place is None:
        return default
    if place.value not in choices:
        place.wrong(f"is {place.value!r}", f"give one of {', '.join(choices)}")
    return place.value


def _whole(place: Place) -> int:
    if isinstance(place.value, bool) or not isinstance(place.value, int) or place.value < 1:
        place.wrong(f"is {place.value!r}", "give a whole number above zero")
    return int(place.value)
