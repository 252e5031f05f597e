"""Where targets are looked for while the exporter runs, and which of them are this exporter's."""

from dataclasses import dataclass

__all__ = ["FileDiscovery", "HttpDiscovery", "Shard"]


@dataclass(frozen=True, slots=True)
class FileDiscovery:
    """Files of target groups; the last part of a path may hold ``*``."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HttpDiscovery:
    """An address that answers target groups, asked every ``refresh_s`` seconds."""

    url: str
    refresh_s: float


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of all targets that this one of ``count`` exporters scrapes; ``index`` counts from 0."""

    index: int = 0
    count: int = 1
