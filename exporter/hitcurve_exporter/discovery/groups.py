"""Target groups, as Prometheus' file_sd and http_sd have them, to targets.

Format: ``[{"targets": ["HOST:PORT", …], "labels": {"name": "value", …}}, …]`` as JSON or YAML
(prometheus.io/docs/prometheus/latest/http_sd).
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from hitcurve.readers.long_labels import short_label
from hitcurve_exporter.configuration.kv_events_records import KvEventsConfig
from hitcurve_exporter.configuration.kv_events_settings import kv_events_of
from hitcurve_exporter.configuration.records import TargetConfig
from hitcurve_exporter.configuration.targets import a_target, is_free_label
from hitcurve_exporter.configuration.yaml_document import Unsuitable

__all__ = ["BadGroups", "parse_groups"]

_EXAMPLE: Final = '[{"targets": ["10.0.0.1:8000"], "labels": {"zone": "a"}}]'


class BadGroups(ValueError):
    """What was found is no list of target groups; the message says what is wrong, without its contents."""


def parse_groups(text: bytes, *, as_yaml: bool) -> tuple[TargetConfig, ...]:
    """The targets of all groups, in order.

    ``__scheme__`` and ``__metrics_path__`` are honoured; ``instance`` names the target of a group with one target;
    ``__kv_events_endpoint__``, ``__kv_events_replay_endpoint__``, ``__kv_events_topic__`` and
    ``__kv_events_ranks__`` say where an engine publishes KV events, with ``{host}`` for the target's host.
    Other labels that begin with ``__`` and those that are hitcurve's or Prometheus' own are left out. Values of
    more than 200 characters are cut and end in a digest.
    """
    try:
        groups = yaml.load(text, Loader=yaml.CSafeLoader) if as_yaml else json.loads(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise BadGroups(f"it is not {'YAML' if as_yaml else 'JSON'}") from error
    if groups is None and as_yaml:
        return ()
    if not isinstance(groups, list):
        raise BadGroups(f"it must be a list such as {_EXAMPLE}")
    return tuple(target for number, group in enumerate(groups, 1) for target in _targets(number, group))


def _targets(number: int, group: Any) -> list[TargetConfig]:
    if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
        raise BadGroups(f"group {number} has no list of 'targets'; write it such as {_EXAMPLE}")
    labels = group.get("labels") or {}
    if not isinstance(labels, dict) or not all(_is_text(pair) for pair in labels.items()):
        raise BadGroups(f"the labels of group {number} are not names with texts")
    addresses = group["targets"]
    name = short_label(labels["instance"]) if len(addresses) == 1 and labels.get("instance") else None
    shown = tuple(
        sorted((label, short_label(value)) for label, value in labels.items() if value and is_free_label(label))
    )
    return [_target(number, address, name, labels, shown) for address in addresses]


def _target(
    number: int, address: Any, name: str | None, labels: Mapping[str, str], shown: tuple[tuple[str, str], ...]
) -> TargetConfig:
    scheme, path = labels.get("__scheme__") or "http", labels.get("__metrics_path__") or ""
    whole = address if "://" in str(address) else f"{scheme}://{address}{path}"
    try:
        if not isinstance(address, str):
            raise Unsuitable("a text")
        target = a_target(whole, name, shown)
    except Unsuitable as error:
        raise BadGroups(f"a target of group {number} must be {error}") from error
    try:
        return replace(target, kv_events=_kv_events(target, labels))
    except Unsuitable as error:
        raise BadGroups(f"the KV events of group {number} must be {error}") from error


def _kv_events(target: TargetConfig, labels: Mapping[str, str]) -> KvEventsConfig | None:
    host = urlsplit(target.url).hostname or ""
    given = {
        key: (labels.get(f"__kv_events_{key}__") or "").replace("{host}", f"[{host}]" if ":" in host else host)
        for key in ("endpoint", "replay_endpoint", "topic", "ranks")
    }
    if not given["endpoint"]:
        return None
    return kv_events_of(given["endpoint"], given["replay_endpoint"] or None, given["topic"], given["ranks"] or "1")


def _is_text(pair: tuple[Any, Any]) -> bool:
    return isinstance(pair[0], str) and isinstance(pair[1], str)
