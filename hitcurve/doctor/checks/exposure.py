"""Can others reach what only the operator should?"""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from hitcurve.doctor.findings import Check, Finding, Fleet, NotJudged, Said
from hitcurve.doctor.observed import RESET_PATH, Replica

__all__ = ["EXPOSURE"]

_DEVELOPMENT: Final = (RESET_PATH, "/collective_rpc", "/sleep", "/server_info")


def _development(fleet: Fleet) -> Iterator[Said]:
    for replica in fleet.replicas:
        if replica.failure is not None:
            continue
        if replica.paths is None:
            yield NotJudged((replica.name,), "the list of its paths (/openapi.json)")
            continue
        open_paths = [path for path in _DEVELOPMENT if path in replica.paths]
        reachable = _reachable_from_elsewhere(replica)
        if open_paths and reachable is None:
            yield NotJudged((replica.name,), "the addresses its process listens on")
        elif open_paths and reachable:
            yield Finding(
                (replica.name,),
                f"the development endpoints {', '.join(open_paths)} are reachable {reachable}: anybody there can "
                "clear "
                "the cache or run code in the engine",
                "unset VLLM_SERVER_DEV_MODE, or listen on 127.0.0.1 (--host), or block these paths in front of it",
                {"paths": ", ".join(open_paths)},
                "error",
            )


def _reachable_from_elsewhere(replica: Replica) -> str | None:
    """Where from, empty if from nowhere else, ``None`` where that cannot be seen."""
    if not replica.loopback:
        return f"at {replica.name}"
    if replica.process is None:
        return None
    wide = sorted(one for one in replica.process.listens_on if not ip_address(one).is_loopback)
    return f"from other machines (it listens on {', '.join(wide)})" if wide else ""


EXPOSURE: Final = (Check("dev-endpoints-exposed", "Are development endpoints closed to others?", _development),)
