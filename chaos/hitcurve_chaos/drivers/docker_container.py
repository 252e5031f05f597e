"""Engines in Docker containers, through the docker SDK (``pip install 'hitcurve[docker]'``).

A container is found by its name or by its compose project and service, and touched only where it carries the label
``hitcurve.chaos=allow``: whoever runs it must have agreed.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hitcurve_chaos.access import DockerAccess
from hitcurve_chaos.drivers.driver import Action, DriverFailed, Ending

__all__ = ["ALLOW_LABEL", "DockerContainer", "undo_container"]

ALLOW_LABEL = "hitcurve.chaos"
_ALLOW = "allow"
_STOP_S = 20
_LEAST_MEMORY = 6 * 1024 * 1024
"""What the Docker Engine itself takes as the smallest limit."""

Client = Any
"""``docker.DockerClient``; the package carries no types."""


class DockerContainer:
    """One container. ``client`` connects to the engine of the environment (DOCKER_HOST) unless given."""

    def __init__(self, access: DockerAccess, client: Callable[[], Client] | None = None) -> None:
        self._access = access
        self._client = (client or _client_of_environment)()
        self._id: str = _find(self._client, access).id
        self._networks: dict[str, dict[str, Any]] = {}
        self._memory: tuple[int, int] | None = None

    @property
    def can(self) -> frozenset[Action]:
        return frozenset({"pause", "stop", "kill", "start", "memory_limit", "cut_network"})

    def record(self, action: Action) -> dict[str, Any]:
        container = self._container()
        record: dict[str, Any] = {"container": container.id, "name": container.name}
        if action == "pause":
            return {"fault": "container_paused", **record}
        if action == "memory_limit":
            memory, swap = _memory_of(container)
            return {"fault": "container_memory", **record, "memory": memory, "memory_swap": swap}
        if action == "cut_network":
            return {"fault": "container_network", **record, "networks": _networks_of(container)}
        return {"fault": "container_stopped", **record}

    def environment(self) -> Mapping[str, str]:
        entries = self._container().attrs["Config"]["Env"] or []
        return dict(entry.split("=", 1) for entry in entries if "=" in entry)

    def ending(self) -> Ending | None:
        try:
            state = self._container().attrs["State"]
        except Exception:
            # Whoever cannot be asked says nothing of how it ended.
            return None
        if state["Status"] not in ("exited", "dead"):
            return None
        cause = ", out of memory" if state.get("OOMKilled") else ""
        return Ending(f"ended with exit code {state.get('ExitCode')}{cause} in its container", for_good=False)

    def pause(self) -> None:
        with _told("cannot be paused"):
            self._container().pause()

    def resume(self) -> None:
        with _told("cannot be resumed"):
            _resume(self._container())

    def stop(self) -> None:
        with _told("cannot be stopped"):
            self._container().stop(timeout=_STOP_S)

    def kill(self) -> None:
        with _told("cannot be killed"):
            container = self._container()
            container.kill()
            container.wait(timeout=_STOP_S)

    def kill_core(self) -> None:
        raise DriverFailed("the processes inside of a container are not touched one by one")

    def start(self) -> None:
        with _told("cannot be started"):
            _start(self._container())

    def limit_memory(self, share: float) -> Mapping[str, float]:
        with _told("cannot be given less memory"):
            container = self._container()
            self._memory = _memory_of(container)
            used = int(container.stats(stream=False)["memory_stats"].get("usage", 0))
            limit = max(_LEAST_MEMORY, int(used * share))
            container.update(mem_limit=limit, memswap_limit=limit)
            return {"used_bytes": float(used), "limit_bytes": float(limit)}

    def restore_memory(self) -> None:
        if self._memory is not None:
            with _told("cannot be given its memory back"):
                _set_memory(self._client, self._container(), *self._memory)
            self._memory = None

    def cut_network(self) -> None:
        with _told("cannot be cut off"):
            container = self._container()
            self._networks = _networks_of(container)
            for name in self._networks:
                self._client.networks.get(name).disconnect(container)

    def join_network(self) -> None:
        with _told("cannot be connected again"):
            _join(self._client, self._container(), self._networks)

    def state(self) -> str:
        """``running``, ``paused``, ``exited`` and so on, as the Docker Engine says."""
        return str(self._container().status)

    def _container(self) -> Any:
        container = self._client.containers.get(self._id)
        _require_label(container)
        return container


def undo_container(record: Mapping[str, Any], client: Callable[[], Client] | None = None) -> str:
    """Undo what a record of ``DockerContainer.record`` describes; returns a sentence. Raises DriverFailed."""
    with _told("cannot be restored"):
        connected = (client or _client_of_environment)()
        container = connected.containers.get(record["container"])
        _require_label(container)
        match record["fault"]:
            case "container_paused":
                _resume(container)
            case "container_memory":
                _set_memory(connected, container, int(record["memory"]), int(record["memory_swap"]))
                # It may have been killed for want of it.
                _start(container)
            case "container_network":
                _join(connected, container, record["networks"])
            case _:
                _start(container)
        return f"container {record['name']} is as it was"


def _client_of_environment() -> Client:
    try:
        import docker
    except ImportError as error:
        raise DriverFailed("the docker SDK is not installed; pip install 'hitcurve[docker]'") from error
    try:
        return docker.from_env()
    except docker.errors.DockerException as error:
        raise DriverFailed(f"no Docker Engine answers ({error})") from error


def _find(client: Client, access: DockerAccess) -> Any:
    with _told("cannot be found"):
        if access.container is not None:
            found = [client.containers.get(access.container)]
        else:
            labels = [f"com.docker.compose.service={access.service}"]
            labels += [f"com.docker.compose.project={access.project}"] if access.project else []
            found = client.containers.list(all=True, filters={"label": labels})
    if len(found) != 1:
        raise DriverFailed(
            f"{len(found)} containers are the service '{access.service}'; name the container instead"
        )
    _require_label(found[0])
    return found[0]


def _require_label(container: Any) -> None:
    if container.labels.get(ALLOW_LABEL) != _ALLOW:
        raise DriverFailed(
            f"container {container.name} does not carry the label {ALLOW_LABEL}={_ALLOW}; add it where you agree"
        )


def _resume(container: Any) -> None:
    container.reload()
    if container.status == "paused":
        container.unpause()


def _start(container: Any) -> None:
    container.reload()
    if container.status == "paused":
        container.unpause()
    elif container.status != "running":
        container.start()


def _memory_of(container: Any) -> tuple[int, int]:
    container.reload()
    host = container.attrs["HostConfig"]
    return int(host.get("Memory") or 0), int(host.get("MemorySwap") or 0)


def _set_memory(client: Client, container: Any, memory: int, memory_swap: int) -> None:
    """Docker Engines take no limit away again: what had none gets all of the machine's memory, and swap."""
    limit = memory or int(client.info()["MemTotal"])
    container.update(mem_limit=limit, memswap_limit=memory_swap or 2 * limit)


def _networks_of(container: Any) -> dict[str, dict[str, Any]]:
    container.reload()
    networks = container.attrs["NetworkSettings"]["Networks"]
    # The short id is an alias that the engine adds by itself, and refuses to be given.
    return {
        name: {"aliases": [a for a in values.get("Aliases") or () if not container.id.startswith(a)]}
        for name, values in networks.items()
    }


def _join(client: Client, container: Any, networks: Mapping[str, Mapping[str, Any]]) -> None:
    connected = _networks_of(container)
    for name, values in networks.items():
        if name not in connected:
            client.networks.get(name).connect(container, aliases=list(values.get("aliases") or ()) or None)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Errors of the docker SDK and of its transport, in one sentence."""
    try:
        yield
    except DriverFailed:
        raise
    except Exception as error:
        raise DriverFailed(f"the container {what} ({error})") from error
