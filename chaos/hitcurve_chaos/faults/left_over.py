"""Undoing a fault from its journalled record, in another process than the one that injected it."""

from collections.abc import Callable, Mapping
from typing import Any

from hitcurve_chaos.calls import Transport
from hitcurve_chaos.drivers.docker_container import undo_container
from hitcurve_chaos.drivers.driver import DriverFailed
from hitcurve_chaos.drivers.processes import resume_if_same, state_of
from hitcurve_chaos.faults.adapters import AdapterEndpoints, unload_all
from hitcurve_chaos.faults.fault import Undo
from hitcurve_chaos.targets import Target

__all__ = ["check_record", "undo_record"]

_Undoer = Callable[[Mapping[str, Any], Target, Transport], Undo]


def undo_record(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    """Undo the fault that ``record`` describes, a record that passed ``check_record``."""
    return _UNDOERS[record["fault"]](record, target, transport)


def check_record(record: object) -> Mapping[str, Any]:
    """The record, where this version can undo what it describes; ValueError says what is wrong with it."""
    if not isinstance(record, dict) or not isinstance(record.get("fault"), str):
        raise ValueError("holds no record of a fault; restore the file as the run wrote it, or undo by hand")
    if record["fault"] not in _UNDOERS:
        raise ValueError(
            f"names the fault '{record['fault']}', which this version of hitcurve does not know; "
            "undo it with the version that ran it"
        )
    prefix = record.get("prefix")
    # An empty prefix would unload the adapters of everybody.
    if record["fault"] == "adapter_churn" and not (isinstance(prefix, str) and prefix.strip()):
        raise ValueError("does not say how the adapters are called; unload them by hand")
    wanted = "container" if record["fault"].startswith("container_") else "pid"
    if record["fault"].startswith(("container_", "process_")) and wanted not in record:
        raise ValueError(f"does not say which {wanted} it acted on; undo it by hand")
    return record


def _nothing(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    return Undo(True, "nothing remains of it on the engine")


def _adapters(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    return unload_all(AdapterEndpoints(target, transport), str(record["prefix"]))


def _resumed(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    process_id, started = int(record["pid"]), record["started"]
    if resume_if_same(process_id, started, group=bool(record.get("group"))):
        return Undo(True, f"process {process_id} goes on")
    return Undo(True, f"process {process_id} is gone, so it is not paused", {"state": state_of(process_id)})


def _ended(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    return Undo(True, "the engine was started by the run and has ended with it")


def _container(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    try:
        return Undo(True, undo_container(record))
    except DriverFailed as error:
        return Undo(False, str(error))


_UNDOERS: dict[str, _Undoer] = {
    "reset_prefix_cache": _nothing,
    "unique_traffic": _nothing,
    "requests": _nothing,
    "process_paused": _resumed,
    "process_ended": _ended,
    "container_paused": _container,
    "container_stopped": _container,
    "container_memory": _container,
    "container_network": _container,
    "adapter_churn": _adapters,
}
