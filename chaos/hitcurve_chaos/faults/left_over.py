"""Undoing a fault from its journalled record, in another process than the one that injected it."""

from collections.abc import Callable, Mapping
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_chaos.calls import Transport
from hitcurve_chaos.faults.adapters import AdapterEndpoints, unload_all
from hitcurve_chaos.faults.fault import Undo
from hitcurve_chaos.targets import Target

__all__ = ["undo_record"]

_Undoer = Callable[[Mapping[str, Any], Target, Transport], Undo]


def undo_record(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    """Undo the fault that ``record`` describes; UsageError for a kind this version does not know."""
    kind = record.get("fault")
    if kind not in _UNDOERS:
        raise UsageError(
            f"the journal names the fault '{kind}', which this version of hitcurve does not know; "
            "undo it with the version that ran it."
        )
    return _UNDOERS[str(kind)](record, target, transport)


def _nothing(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    return Undo(True, "nothing remains of it on the engine")


def _adapters(record: Mapping[str, Any], target: Target, transport: Transport) -> Undo:
    return unload_all(AdapterEndpoints(target, transport), str(record["prefix"]))


_UNDOERS: dict[str, _Undoer] = {
    "reset_prefix_cache": _nothing,
    "unique_traffic": _nothing,
    "adapter_churn": _adapters,
}
