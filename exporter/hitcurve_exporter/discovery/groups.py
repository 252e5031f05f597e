"""Target groups, as Prometheus' file_sd and http_sd have them, to targets.

Format: ``[{"targets": ["HOST:PORT", …], "labels": {"name": "value", …}}, …]`` as JSON or YAML
(prometheus.io/docs/prometheus/latest/http_sd).
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

from hitcurve_exporter.configuration.records import TargetConfig
from hitcurve_exporter.configuration.targets import a_target, is_free_label
from hitcurve_exporter.configuration.yaml_document import Unsuitable

__all__ = ["BadGroups", "parse_groups"]

_EXAMPLE: Final = '[{"targets": ["10.0.0.1:8000"], "labels": {"zone": "a"}}]'


class BadGroups(ValueError):
    """What was found is no list of target groups; the message says what is wrong, without its contents."""


def parse_groups(text: bytes, *, as_yaml: bool) -> tuple[TargetConfig, ...]:
    """The targets of all groups, in order.

    ``__scheme__`` and ``__metrics_path__`` are honoured; ``instance`` names the target of a group with one target.
    Labels that begin with ``__`` and those that are hitcurve's or Prometheus' own are left out.
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
    name = labels.get("instance") if len(addresses) == 1 else None
    shown = tuple(sorted(pair for pair in labels.items() if pair[1] and is_free_label(pair[0])))
    return [_target(number, address, name, labels, shown) for address in addresses]


def _target(
    number: int, address: Any, name: str | None, labels: Mapping[str, str], shown: tuple[tuple[str, str], ...]
) -> TargetConfig:
    scheme, path = labels.get("__scheme__") or "http", labels.get("__metrics_path__") or ""
    whole = address if "://" in str(address) else f"{scheme}://{address}{path}"
    try:
        if not isinstance(address, str):
            raise Unsuitable("a text")
        return a_target(whole, name, shown)
    except Unsuitable as error:
        raise BadGroups(f"a target of group {number} must be {error}") from error


def _is_text(pair: tuple[Any, Any]) -> bool:
    return isinstance(pair[0], str) and isinstance(pair[1], str)
