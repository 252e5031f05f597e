"""Undoing a fault from its journalled record, in another process than the one that injected it."""

from collections.abc import Callable, Mapping
from typing import Any

from hitcurve_chaos.calls import Transport
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
    return record


def _nothing(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    return Undo(True, "nothing remains of it on the engine")


def _adapters(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    return unload_all(AdapterEndpoints(target, transport), str(record["prefix"]))


_UNDOERS: dict[str, _Undoer] = {
    "reset_prefix_cache": _nothing,
    "unique_traffic": _nothing,
    "adapter_churn": _adapters,
}
