"""Is the engine patch loaded, and does what it records arrive?"""

from collections.abc import Iterator
from typing import Final

from hitcurve.doctor.checks.where import is_vllm, name_of
from hitcurve.doctor.findings import Check, Finding, Fleet, NotJudged, Said
from hitcurve.doctor.observed import Replica

__all__ = ["PATCH"]

_ACTIVE: Final = "hitcurve_engine_active"
_ERRORS: Final = "hitcurve_engine_errors_total"
_EVENTS: Final = "hitcurve_engine_events_total"
_DROPPED: Final = "hitcurve_engine_dropped_events_total"
_REQUESTS: Final = "hitcurve_engine_requests_total"
_SPANS: Final = "hitcurve_engine_spans_total"
_SPANS_DROPPED: Final = "hitcurve_engine_dropped_spans_total"


def _loaded(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        here, patch = (name_of(replica, engine),), engine.patch
        if not is_vllm(engine):
            yield NotJudged(here, "vLLM, which the engine patch is for")
        elif _ACTIVE not in patch:
            plugins = replica.process.environment.get("VLLM_PLUGINS") if replica.process else None
            left_out = plugins is not None and "hitcurve" not in plugins.split(",")
            yield Finding(
                here,
                "the engine patch is not loaded, so misses have no reasons"
                + (f" (VLLM_PLUGINS={plugins} leaves it out)" if left_out else ""),
                "add hitcurve to VLLM_PLUGINS" if left_out else "pip install 'hitcurve[engine]' beside vLLM",
                _process(replica),
                "warning" if left_out else "note",
            )
        elif patch[_ACTIVE] == 0:
            yield Finding(
                here,
                f"the engine patch switched itself off after {patch.get(_ERRORS, 0.0):.0f} errors",
                "look for 'hitcurve' in the engine's log, which names the place, and report it",
                {"errors": patch.get(_ERRORS, 0.0), **_process(replica)},
                "error",
            )
        elif patch.get(_DROPPED):
            lost, taken = patch[_DROPPED], patch.get(_EVENTS, 0.0)
            yield Finding(
                here,
                f"the engine patch lost {lost:.0f} of {lost + taken:.0f} events because its queue was full",
                "give the engine's machine one more CPU core, or raise HITCURVE_QUEUE_EVENTS",
                {"dropped_events": lost, **_process(replica)},
            )


def _process(replica: Replica) -> dict[str, float | str | None]:
    """Which process was looked at, where it runs on this machine: the one that answers for the engine."""
    return {} if replica.process is None else {"process": str(replica.process.pid)}


def _spans(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        here, patch = (name_of(replica, engine),), engine.patch
        arrived, dropped = patch.get(_SPANS), patch.get(_SPANS_DROPPED, 0.0)
        if arrived is None or not patch.get(_REQUESTS):
            if _ACTIVE in patch:
                yield NotJudged(here, "finished requests")
            continue
        if dropped > 0:
            yield Finding(
                here,
                f"{dropped:.0f} spans did not arrive, {arrived:.0f} did",
                "check that OTEL_EXPORTER_OTLP_ENDPOINT is reachable from the engine and the collector keeps up",
                {"spans": arrived, "dropped_spans": dropped},
            )


PATCH: Final = (
    Check("patch-loaded", "Does the engine patch record?", _loaded),
    Check("spans-lost", "Do spans arrive?", _spans),
)
