"""Addresses: what to scrape, what to call it, where to listen."""

import ipaddress
import re
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hitcurve.address import base_address
from hitcurve.catalogue import CATALOGUE
from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.access_records import EngineAccess
from hitcurve_exporter.configuration.access_settings import ACCESS_KEYS, read_access
from hitcurve_exporter.configuration.kv_events_settings import read_kv_events
from hitcurve_exporter.configuration.records import ListenAddress, TargetConfig
from hitcurve_exporter.configuration.yaml_document import Section, Unsuitable, a_text

__all__ = ["a_listen_address", "a_target", "an_address", "is_free_label", "read_targets"]

_EXPORTED: Final = [metric for metric in CATALOGUE if metric.group != "chaos"]
RESERVED_LABELS: Final = frozenset(label for metric in _EXPORTED for label in metric.labels) | {"instance", "job"}
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HOST_LABEL: Final = re.compile(r"[a-zA-Z0-9_](?:[a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?")
_LONGEST_HOST: Final = 254
_LARGEST_PORT: Final = 65_535


def a_listen_address(text: str) -> ListenAddress:
    """``HOST:PORT``; an IPv6 host stands in brackets, an empty host means every interface."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > _LARGEST_PORT:
        raise Unsuitable("HOST:PORT such as 127.0.0.1:9477")
    return ListenAddress(host.strip("[]") or "0.0.0.0", int(port))


def a_target(url: str, name: str | None = None, labels: tuple[tuple[str, str], ...] = ()) -> TargetConfig:
    """The target at ``url``; Unsuitable where that is no address of an engine."""
    shown = an_address(url).rstrip("/")
    parts = urlsplit(shown)
    if parts.query or parts.fragment:
        raise Unsuitable("an address without '?' and '#'")
    return TargetConfig(shown, shown if parts.path else f"{shown}/metrics", name or shown, labels)


def an_address(url: str) -> str:
    """An address to send GET requests to, without credentials."""
    shown = url.strip()
    without_query = re.split(r"[?#]", shown, maxsplit=1)[0]
    scheme, _, rest = without_query.partition("://")
    if "@" in rest.partition("/")[0]:
        raise Unsuitable("an address without user name and password, since it becomes a label")
    try:
        base_address(without_query)
        usable = scheme in ("http", "https") and _is_host(urlsplit(shown).hostname or "")
    except (UsageError, ValueError):
        usable = False
    if not usable:
        raise Unsuitable("an address such as http://127.0.0.1:8000")
    return shown


def _is_host(name: str) -> bool:
    """An IP address, or a name that a name server may know; ``_`` as container networks write it."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        labels = name.encode("idna").decode().removesuffix(".").split(".")
        known = sum(map(len, labels)) + len(labels) <= _LONGEST_HOST and not labels[-1].isdigit()
        return known and all(map(_HOST_LABEL.fullmatch, labels))
    return True


def is_free_label(name: str) -> bool:
    """Whether a configuration may add a label of that name."""
    return bool(_LABEL_NAME.fullmatch(name)) and not name.startswith("__") and name not in RESERVED_LABELS


def read_targets(
    document: Section,
    most: int,
    *,
    folder: Path,
    access: EngineAccess | None = None,
    may_be_none: bool = False,
) -> tuple[TargetConfig, ...]:
    """The entries under ``targets``, all of different address and name.

    ``access`` is for those that name none of their own; relative paths start from ``folder``.
    """
    sections = document.sections("targets", "- url: http://127.0.0.1:8000")
    if not sections and not may_be_none:
        raise document.wrong_at(
            "targets", "'targets' names no engine; add at least '- url: http://127.0.0.1:8000' below it."
        )
    if len(sections) > most:
        raise document.wrong_at(
            "targets",
            f"'targets' has {len(sections)} engines, 'max_targets' allows {most}; raise it or run two exporters.",
        )
    targets: list[TargetConfig] = []
    urls: dict[str, int] = {}
    names: dict[str, int] = {}
    for section in sections:
        target = replace(_target(section), access=read_access(section, folder, access))
        for kind, value, seen in (("url", target.metrics_url, urls), ("name", target.name, names)):
            if value in seen:
                raise section.wrong_at(
                    kind, f"'{kind}' {value} is already used on line {seen[value]}; every target needs its own."
                )
            seen[value] = section.line
        targets.append(target)
    return tuple(targets)


def _target(section: Section) -> TargetConfig:
    section.allow_only(("url", "name", "labels", "kv_events", *ACCESS_KEYS))
    if "url" not in section:
        raise section.wrong("this target has no 'url'; add one such as 'url: http://127.0.0.1:8000'.")
    name = section.read("name", a_text, None)
    labels = section.section("labels", "zone: fra1")
    pairs = tuple((label, _label_value(labels, label)) for label in labels.keys) if labels else ()
    target = section.read("url", lambda url: a_target(url, name, pairs), a_target("http://unset"))
    return replace(target, kv_events=read_kv_events(section))


def _label_value(labels: Section, label: str) -> str:
    if not _LABEL_NAME.fullmatch(label) or label.startswith("__"):
        raise labels.wrong_at(label, f"'{label}' is not a label name; use letters, digits and '_'.")
    if label in RESERVED_LABELS:
        raise labels.wrong_at(label, f"the label '{label}' is hitcurve's or Prometheus' own; choose another name.")
    return labels.read(label, a_text, "")
