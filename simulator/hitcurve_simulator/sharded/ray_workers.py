"""Workers of a Ray cluster: one that runs already, or one on this machine for as long as it is needed."""

import os
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any

from hitcurve.errors import EnvironmentFailed, UsageError

__all__ = ["RayWorkers"]

_CONNECT_S = 5.0
_STORE_BYTES = 256 * 1024 * 1024


class RayWorkers:
    """A context: connected inside. The machines of a cluster need hitcurve installed.

    ``address`` is that of a running cluster (``auto`` finds one on this machine); without it a local one with
    ``count`` processes is started, and stopped at the end. Nothing is reported to anybody.
    """

    def __init__(self, address: str | None = None, count: int | None = None) -> None:
        self.count = 0
        self._address = address
        self._wanted = count
        self._remote: dict[Callable[..., Any], Any] = {}
        self._ray: Any = None

    def __enter__(self) -> "RayWorkers":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if self._address is not None:
            _check_reachable(self._address)
        try:
            import ray
        except ModuleNotFoundError:
            raise UsageError(
                "--engine ray needs the package 'ray'; install it with: pip install 'hitcurve[ray]'"
            ) from None
        self._ray = ray
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if self._address is not None:
                ray.init(address=self._address, **quiet)
            else:
                ray.init(
                    address="local",
                    num_cpus=self._wanted or os.cpu_count() or 1,
                    include_dashboard=False,
                    object_store_memory=_STORE_BYTES,
                    **quiet,
                )
        except Exception as error:
            reason = str(error).strip().splitlines()[:1]
            raise EnvironmentFailed(
                f"Ray does not start ({reason[0] if reason else type(error).__name__}); check --ray-address, or "
                "use --engine local."
            ) from None
        self.count = self._wanted or max(int(self._ray.cluster_resources().get("CPU", 1)), 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ray.shutdown()

    def start(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Begin on one of the workers; arguments may be results that are still to come."""
        if function not in self._remote:
            self._remote[function] = self._ray.remote(function)
        return self._remote[function].remote(*arguments)

    def result(self, started: Any) -> Any:
        """Wait for it. What went wrong in a worker is raised here as it was there."""
        try:
            return self._ray.get(started)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            raise EnvironmentFailed(f"a Ray worker failed: {first}; use --engine local.") from None


def _check_reachable(address: str) -> None:
    """Ray itself would try for many minutes. Raises EnvironmentFailed."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise EnvironmentFailed(
            f"no Ray cluster answers at {address} ({error}); start it or correct --ray-address."
        ) from None
