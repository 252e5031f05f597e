"""The section ``kv_events`` of a target."""

import re
from importlib.util import find_spec
from typing import Final

from hitcurve_exporter.configuration.kv_events_records import KvEventsConfig
from hitcurve_exporter.configuration.yaml_document import Section, Unsuitable, a_whole_number

__all__ = ["kv_events_of", "read_kv_events"]

_TCP: Final = re.compile(r"tcp://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_IPC: Final = re.compile(r"ipc://\S+")
_LARGEST_PORT: Final = 65_535
_MOST_RANKS: Final = 256
_PACKAGES: Final = ("msgspec", "zmq")


def read_kv_events(target: Section) -> KvEventsConfig | None:
    """``None`` where the target names none. UsageError also where a package is missing that reading them needs."""
    section = target.section("kv_events", "endpoint: tcp://127.0.0.1:5557")
    if section is None:
        return None
    if any(find_spec(package) is None for package in _PACKAGES):
        raise section.wrong(
            "'kv_events' needs pyzmq and msgspec; install them with: pip install 'hitcurve[kv-events]'."
        )
    section.allow_only(("endpoint", "replay_endpoint", "topic", "ranks"))
    if "endpoint" not in section:
        raise section.wrong("'kv_events' has no 'endpoint'; add one such as 'endpoint: tcp://127.0.0.1:5557'.")
    ranks = section.read("ranks", _some_ranks, 1)
    config = KvEventsConfig(
        section.read("endpoint", an_endpoint, ""),
        section.read("replay_endpoint", an_endpoint, None),
        section.read("topic", str, ""),
        ranks,
    )
    mistake = _mistake(config)
    if mistake is not None:
        raise section.wrong_at(*mistake)
    return config


def kv_events_of(endpoint: str, replay_endpoint: str | None, topic: str, ranks: str) -> KvEventsConfig:
    """The same from texts, as a target group holds them. Unsuitable where they name no publisher."""
    if any(find_spec(package) is None for package in _PACKAGES):
        raise Unsuitable("read with pyzmq and msgspec; install them with: pip install 'hitcurve[kv-events]'")
    replay = None if replay_endpoint is None else an_endpoint(replay_endpoint)
    config = KvEventsConfig(an_endpoint(endpoint), replay, topic, _some_ranks(ranks))
    if _mistake(config) is not None:
        raise Unsuitable("addresses whose ports leave one for each rank and do not overlap")
    return config


def _mistake(config: KvEventsConfig) -> tuple[str, str] | None:
    """A key and what is wrong with its value."""
    ranks = config.ranks
    for key, endpoint in (("endpoint", config.endpoint), ("replay_endpoint", config.replay_endpoint)):
        if ranks > 1 and endpoint is not None and not _has_ports(endpoint, ranks):
            return key, f"'{key}' leaves no port for each of {ranks} ranks; name a tcp address."
    if config.replay_endpoint is not None and _overlap(config.endpoint, config.replay_endpoint, ranks):
        return (
            "replay_endpoint",
            "the ports of 'endpoint' and 'replay_endpoint' overlap; every rank takes one port above each.",
        )
    return None


def an_endpoint(text: str) -> str:
    """An address to connect to."""
    tcp = _TCP.fullmatch(text)
    if not (_IPC.fullmatch(text) or (tcp and 0 < int(tcp["port"]) <= _LARGEST_PORT)):
        raise Unsuitable("an address to connect to, such as tcp://127.0.0.1:5557 (the engine's '*' is its host)")
    return text


def _some_ranks(text: str) -> int:
    ranks = a_whole_number(1)(text)
    if ranks > _MOST_RANKS:
        raise Unsuitable(f"a whole number, 1 to {_MOST_RANKS}")
    return ranks


def _has_ports(endpoint: str, ranks: int) -> bool:
    tcp = _TCP.fullmatch(endpoint)
    return tcp is not None and int(tcp["port"]) + ranks - 1 <= _LARGEST_PORT


def _overlap(one: str, other: str, ranks: int) -> bool:
    if one == other:
        return True
    host, _, port = one.rpartition(":")
    other_host, _, other_port = other.rpartition(":")
    return host == other_host and not one.startswith("ipc") and abs(int(port) - int(other_port)) < ranks
