"""Which of all known targets this exporter scrapes: its shard, each engine once, not more than allowed."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from hitcurve_exporter.configuration.discovery_records import Shard
from hitcurve_exporter.configuration.records import TargetConfig

__all__ = ["Selection", "select", "shard_of"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The targets to scrape, and how many of the shard were left out because of the limit."""

    targets: tuple[TargetConfig, ...]
    over_limit: int


def select(targets: Iterable[TargetConfig], shard: Shard, most: int) -> Selection:
    """An address or name that comes again is left out, the first one stays; so are targets beyond ``most``."""
    urls: set[str] = set()
    names: set[str] = set()
    chosen = []
    for target in targets:
        if shard_of(target, shard.count) != shard.index:
            continue
        if target.metrics_url in urls or target.name in names:
            continue
        urls.add(target.metrics_url)
        names.add(target.name)
        chosen.append(target)
    return Selection(tuple(chosen[:most]), max(0, len(chosen) - most))


def shard_of(target: TargetConfig, count: int) -> int:
    """The shard of a target; the same on every machine, and for a target of its own whatever the others are.

    The last eight bytes of the MD5 of the address, as the relabelling action ``hashmod`` of Prometheus has it.
    """
    digest = hashlib.md5(target.metrics_url.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "big") % count
