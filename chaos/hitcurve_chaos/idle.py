"""The steady state of a drill: an engine that answers, that nobody else uses, and whose blocks are let go of."""

from collections.abc import Callable

from hitcurve_chaos.baseline import Baseline
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.engine_counters import EngineCounters
from hitcurve_chaos.probe import Probe

__all__ = ["await_idle", "usage_after_a_request"]

_QUIET_S = 0.2
_EVERY_S = 0.1
_SAME_USAGE = 0.002


def await_idle(
    probe: Probe, clock: Clock, counters: Callable[[], EngineCounters | None], within_s: float
) -> Baseline:
    """Wait until a request is answered and the counters stand still; at most ``within_s`` seconds.

    An engine without readable counters is taken as idle once it answers.
    """
    started_s, reason = clock.now(), ""
    while True:
        answer = probe.ask(probe.new_prompt(4)) if reason != _FOREIGN else None
        if answer is not None and not answer.completed:
            reason = f"the engine completes no request ({answer.reason})"
        else:
            before = counters()
            clock.sleep(_QUIET_S)
            after = counters()
            if before is None or after is None or _still(before, after):
                return Baseline(True, started_s)
            reason = _FOREIGN
        if clock.now() - started_s >= within_s:
            return Baseline(False, started_s, reason, "invalid")
        clock.sleep(_EVERY_S)


_FOREIGN = "others use the engine: its counters move though the run sends nothing"


def _still(before: EngineCounters, after: EngineCounters) -> bool:
    return before.queries == after.queries and not after.running and not after.waiting


def usage_after_a_request(
    probe: Probe,
    clock: Clock,
    counters: Callable[[], EngineCounters | None],
    wanted: float | None,
    within_s: float,
) -> float | None:
    """KV usage once it is back at ``wanted``, or the last one seen within the time; ``None`` where it is not told.

    A request is sent before each reading: engines renew the gauge with a step, and after a mass cancel there may
    be none for ever (vllm-project/vllm#29928).
    """
    started_s = clock.now()
    while True:
        probe.ask(probe.new_prompt(4))
        found = counters()
        usage = found.kv_usage if found else None
        if usage is None or wanted is None or usage <= wanted + _SAME_USAGE:
            return usage
        if clock.now() - started_s >= within_s:
            return usage
        clock.sleep(_EVERY_S)
