"""The sections ``file_sd_configs``, ``http_sd_configs`` (Prometheus' names) and ``shard``."""

from pathlib import Path
from typing import Final

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.discovery_records import FileDiscovery, HttpDiscovery, Shard
from hitcurve_exporter.configuration.targets import an_address
from hitcurve_exporter.configuration.yaml_document import (
    Section,
    Unsuitable,
    a_text,
    a_whole_number,
    some_duration,
)

__all__ = ["read_file_discovery", "read_http_discovery", "read_shard", "shard_from_option"]

_ENDINGS: Final = (".json", ".yaml", ".yml")
_DEFAULT_REFRESH_S: Final = 60.0
_SHORTEST_REFRESH_S: Final = 1.0


def read_file_discovery(document: Section, folder: Path) -> tuple[FileDiscovery, ...]:
    """Relative paths start from ``folder``."""
    found = []
    for section in document.sections("file_sd_configs", "- files: [targets/*.json]"):
        section.allow_only(("files", "refresh_interval"))
        section.read("refresh_interval", some_duration, 0.0)
        files = section.read_list("files", a_pattern)
        if not files:
            raise section.wrong("this entry names no files; add 'files: [targets/*.json]'.")
        found.append(FileDiscovery(tuple(str(folder / file) for file in files)))
    return tuple(found)


def read_http_discovery(document: Section) -> tuple[HttpDiscovery, ...]:
    """Addresses with how often to ask them."""
    found = []
    for section in document.sections("http_sd_configs", "- url: http://127.0.0.1:8080/targets"):
        section.allow_only(("url", "refresh_interval"))
        if "url" not in section:
            raise section.wrong("this entry has no 'url'; add one such as 'url: http://127.0.0.1:8080/targets'.")
        url = section.read("url", an_address, "")
        found.append(HttpDiscovery(url, section.read("refresh_interval", a_refresh, _DEFAULT_REFRESH_S)))
    return tuple(found)


def read_shard(document: Section) -> Shard:
    """All targets where no shard is named."""
    section = document.section("shard", "{index: 0, count: 2}")
    if section is None:
        return Shard()
    section.allow_only(("index", "count"))
    for key in ("index", "count"):
        if key not in section:
            raise section.wrong(f"'shard' has no '{key}'; write it as 'shard: {{index: 0, count: 2}}'.")
    shard = Shard(section.read("index", a_whole_number(0), 0), section.read("count", a_whole_number(1), 1))
    if shard.index >= shard.count:
        raise section.wrong_at("index", f"'index' counts from 0 to {shard.count - 1}, not {shard.index}.")
    return shard


def shard_from_option(text: str) -> Shard:
    """``INDEX/COUNT``."""
    index, slash, count = text.partition("/")
    numbers = index.isascii() and index.isdigit() and count.isascii() and count.isdigit()
    if not slash or not numbers or not int(index) < int(count):
        raise UsageError(f"--shard must be INDEX/COUNT such as 0/2, the index from 0 on; got '{text}'.")
    return Shard(int(index), int(count))


def a_pattern(text: str) -> str:
    """A path whose last part may hold ``*``."""
    path = Path(a_text(text))
    if path.suffix not in _ENDINGS or "*" in str(path.parent):
        raise Unsuitable("a path that ends in .json, .yaml or .yml, with '*' in its last part only")
    return text


def a_refresh(text: str) -> float:
    """Seconds between two requests."""
    seconds = some_duration(text)
    if seconds < _SHORTEST_REFRESH_S:
        raise Unsuitable("a duration of at least 1s")
    return seconds
