"""The target file: which engines chaos may touch, how to watch them, which load they get.

Chaos acts only on targets of this file, and on one that is not on this machine only with ``allow_chaos: true``.
"""

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hitcurve.address import base_address
from hitcurve.errors import UsageError
from hitcurve.yaml_lines import Place, load_yaml
from hitcurve_chaos.access import DockerAccess, StartSpec, read_docker, read_pid_file, read_start
from hitcurve_chaos.load_options import checked_load

__all__ = [
    "Adapter",
    "AdminAccess",
    "Target",
    "choose_target",
    "describe",
    "described",
    "is_loopback",
    "load_targets",
    "require_allowed",
]

_TARGET_KEYS = (
    "name",
    "engine",
    "model",
    "exporter",
    "exporter_target",
    "collector",
    "allow_chaos",
    "admin",
    "load",
    "adapters",
    "replicas",
    "start",
    "process",
    "docker",
)
_OWN = "http://127.0.0.1:0"
"""Address of an engine that is not started yet."""
_ADMIN_KEYS = ("url", "reset_path", "api_key_env")


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """Where the administrative endpoints are. ``url`` ``None``: on the engine's own address."""

    url: str | None = None
    reset_path: str = "/reset_prefix_cache"
    api_key_env: str | None = None
    """Name of the environment variable with the key; the key itself is never written anywhere."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter that churn may load: its name and its path as the engine sees it."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Target:
    """One engine under test."""

    name: str
    engine: str
    """Root of the engine's API, without ``/v1`` and without a trailing slash."""
    model: str
    exporter: str | None = None
    exporter_target: str | None = None
    """How the exporter calls this engine; ``None``: by ``name`` or by ``engine``."""
    collector: str | None = None
    """Where the engine sends its spans and nobody listens, so that a scenario may (OTLP over HTTP)."""
    allow_chaos: bool = False
    admin: AdminAccess = field(default_factory=AdminAccess)
    load: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the background load, passed to the load generator as they stand."""
    adapters: Sequence[Adapter] = ()
    replicas: Sequence["Target"] = ()
    """Other engines that serve the same model, each a target of its own."""
    start: StartSpec | None = None
    pid_file: Path | None = None
    docker: DockerAccess | None = None

    @property
    def admin_url(self) -> str:
        return self.admin.url or self.engine

    def reset_url(self, *, preempt: bool = False) -> str:
        """Where a reset is asked for; ``preempt``: with ``reset_running_requests=true`` (vLLM 0.12 and later)."""
        url = f"{self.admin_url}{self.admin.reset_path}"
        return f"{url}{'&' if '?' in url else '?'}reset_running_requests=true" if preempt else url

    def headers(self) -> dict[str, str]:
        """Headers for requests of users; the key is in ``HITCURVE_API_KEY``, as for ``hitcurve load``."""
        key = os.environ.get("HITCURVE_API_KEY")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def admin_headers(self) -> dict[str, str]:
        """Headers for administrative requests: with a key of their own where ``admin`` names one."""
        variable = self.admin.api_key_env
        if variable is None:
            return self.headers()
        key = os.environ.get(variable)
        if not key:
            raise UsageError(
                f"the environment variable {variable} is not set; put the admin key of the target there."
            )
        return {"Authorization": f"Bearer {key}"}


def load_targets(path: Path) -> list[Target]:
    """The targets of a YAML file, in order; UsageError names file, line and cure."""
    document = load_yaml(path, example="chaos/targets.example.yaml").mapping(("targets",))
    if "targets" not in document:
        raise UsageError(f"{path}:1: there is no 'targets' list; see chaos/targets.example.yaml.")
    targets: list[Target] = []
    replicas: dict[str, Sequence[Place]] = {}
    for place in document["targets"].sequence():
        target, replicas_of = _target(place)
        if any(target.name == other.name for other in targets):
            place.wrong(f"is called {target.name!r} like another target", "give each target its own name")
        targets.append(target)
        replicas[target.name] = replicas_of
    if not targets:
        document["targets"].wrong("is empty", "list at least one target")
    return [replace(target, replicas=_named(replicas[target.name], target, targets)) for target in targets]


def _named(places: Sequence[Place], target: Target, targets: Sequence[Target]) -> tuple[Target, ...]:
    """The other targets that a target names as its replicas."""
    others = {other.name: other for other in targets if other is not target}
    for place in places:
        if place.value not in others:
            place.wrong(
                f"is {place.value!r}", f"name another target of this file: {', '.join(others) or 'there is none'}"
            )
    return tuple(others[place.value] for place in places)


def choose_target(targets: Sequence[Target], name: str | None) -> Target:
    """The target called ``name``, or the only one; UsageError otherwise."""
    names = ", ".join(target.name for target in targets)
    if name is None:
        if len(targets) > 1:
            raise UsageError(f"the target file lists several targets ({names}); choose one with --target NAME.")
        return targets[0]
    for target in targets:
        if target.name == name:
            return target
    raise UsageError(f"there is no target '{name}' in the target file; its targets are {names}.")


def require_allowed(target: Target) -> None:
    """Raise UsageError unless the target may be hurt: it is on this machine, or marked ``allow_chaos: true``.

    So must each of its replicas be: the mark of one engine is no leave for another.
    """
    for replica in target.replicas:
        require_allowed(replica)
    if target.allow_chaos or target.start is not None:
        return
    for url in (target.engine, target.admin_url):
        if not is_loopback(url):
            raise UsageError(
                f"target '{target.name}' is at {url}, which is not this machine; "
                "add 'allow_chaos: true' to it in the target file if you mean to inject faults there."
            )


def describe(target: Target) -> dict[str, Any]:
    """What the journal keeps of a target, enough to undo a fault there; names of keys, never keys."""
    return {
        "name": target.name,
        "engine": target.engine,
        "model": target.model,
        "allow_chaos": target.allow_chaos,
        "admin": asdict(target.admin),
    }


def described(values: Mapping[str, Any]) -> Target:
    """The inverse of ``describe``; KeyError or TypeError where it is not one."""
    target = Target(**{**values, "admin": AdminAccess(**values["admin"])})
    texts = (target.name, target.engine, target.model, target.admin.reset_path)
    optional_texts = (target.admin.url, target.admin.api_key_env)
    if not all(isinstance(text, str) for text in texts) or not all(
        text is None or isinstance(text, str) for text in optional_texts
    ):
        raise TypeError("not a description of a target")
    if not isinstance(target.allow_chaos, bool):
        raise TypeError("not a description of a target")
    return target


def _target(place: Place) -> tuple[Target, Sequence[Place]]:
    entries = place.mapping(_TARGET_KEYS)
    own = "start" in entries
    for key in ("name",) if own else ("name", "engine", "model"):
        if key not in entries:
            place.wrong(f"has no '{key}'", f"add '{key}: …' to it")
    for key in ("engine", "replicas", "process", "docker", "collector") if own else ():
        if key in entries:
            entries[key].wrong("cannot stand beside 'start'", "take one of them out")
    texts = {
        key: entries[key].text()
        for key in ("name", "model", "exporter_target")
        if key in entries and entries[key].value is not None
    }
    exporter = entries.get("exporter")
    target = Target(
        engine=_OWN if own else _url(entries["engine"]).removesuffix("/v1"),
        exporter=None if exporter is None or exporter.value is None else _url(exporter),
        collector=_url(entries["collector"]) if "collector" in entries else None,
        allow_chaos=entries["allow_chaos"].flag() if "allow_chaos" in entries else False,
        admin=_admin(entries["admin"]) if "admin" in entries else AdminAccess(),
        load=checked_load(entries["load"]) if "load" in entries else {},
        adapters=[_adapter(item) for item in entries["adapters"].sequence()] if "adapters" in entries else [],
        name=texts["name"],
        model=texts.get("model", ""),
        exporter_target=texts.get("exporter_target"),
        start=read_start(entries["start"]) if own else None,
        pid_file=read_pid_file(entries["process"]) if "process" in entries else None,
        docker=read_docker(entries["docker"]) if "docker" in entries else None,
    )
    return target, entries["replicas"].sequence() if "replicas" in entries else ()


def _admin(place: Place) -> AdminAccess:
    entries = place.mapping(_ADMIN_KEYS)
    reset_path = entries["reset_path"].text() if "reset_path" in entries else AdminAccess().reset_path
    if not reset_path.startswith("/"):
        entries["reset_path"].wrong("does not begin with '/'", "write a path such as /reset_prefix_cache")
    return AdminAccess(
        url=_url(entries["url"]) if "url" in entries else None,
        reset_path=reset_path,
        api_key_env=entries["api_key_env"].text() if "api_key_env" in entries else None,
    )


def _adapter(place: Place) -> Adapter:
    entries = place.mapping(("name", "path"))
    if "name" not in entries:
        place.wrong("has no 'name'", "add 'name: …' to it")
    if "path" not in entries:
        place.wrong("has no 'path'", "add the adapter's path as the engine sees it")
    return Adapter(entries["name"].text(), entries["path"].text())


def _url(place: Place) -> str:
    url = place.text()
    if "@" in url.partition("://")[2].partition("/")[0]:
        place.wrong("holds a password", "put the key into HITCURVE_API_KEY instead")
    try:
        return base_address(url if "://" in url else f"nothing://{url}")
    except UsageError:
        place.wrong(f"is not a URL: {url}", "write one such as http://127.0.0.1:8000")


def is_loopback(url: str) -> bool:
    """Whether the address is of the machine that asks."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
