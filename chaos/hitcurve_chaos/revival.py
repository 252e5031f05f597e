"""An engine that a scenario has left silent: started again where a driver can do that, or told of."""

from collections.abc import Callable
from dataclasses import replace

from hitcurve_chaos.clock import wait_until
from hitcurve_chaos.conclusion import NOT_RESTORED
from hitcurve_chaos.drivers.driver import Driver, DriverFailed
from hitcurve_chaos.faults.fault import Undo
from hitcurve_chaos.interrupts import held_back
from hitcurve_chaos.journal import Journal
from hitcurve_chaos.progress import Progress
from hitcurve_chaos.scenario_run import INTERRUPTED, ScenarioRun
from hitcurve_chaos.scenarios.scenario import Bench
from hitcurve_chaos.verdict import Verdict

__all__ = ["left_silent", "revive", "with_revival"]


def left_silent(run: ScenarioRun, driver: Driver | None) -> bool:
    """Whether the engine is silent after a fault, so that no other scenario could begin.

    A run that was interrupted does not wait for an engine of its own to start, which ends with it.
    """
    if run.undo is None or run.answered or run.aborted == INTERRUPTED:
        return False
    ending = driver.ending() if driver is not None else None
    return run.answered is False or (ending is not None and ending.for_good)


def revive(run: ScenarioRun, driver: Driver | None, why_none: str, journal: Journal, progress: Progress) -> Undo:
    """Start the silent engine again and wait until it completes a request; what became of it."""
    scenario, bench = run.scenario.name, run.bench
    if driver is None:
        return Undo(False, f"the engine completes no request, and nothing may start it ({why_none})")
    if "start" not in driver.can:
        return Undo(False, "the engine completes no request, and nothing can start it")
    journal.write(scenario, "engine_restarting")
    progress.step(scenario, "the engine is silent and is started again")
    with held_back():
        try:
            driver.start()
        except DriverFailed as error:
            return Undo(False, str(error))
        if not wait_until(_answers(bench), bench.settings["recover_within"], clock=bench.clock, every_s=1.0):
            return Undo(False, "the engine was started again and completes no request")
    return Undo(True, "the engine was started again")


def _answers(bench: Bench) -> Callable[[], bool]:
    return lambda: bench.probe.ask(bench.probe.new_prompt(4)).completed


def with_revival(verdict: Verdict, revival: Undo) -> Verdict:
    """The verdict, which stays what it is, with the system as it is now."""
    if revival.restored or not verdict.restored:
        return verdict
    return replace(verdict, restored=False, problems=[f"{NOT_RESTORED}: {revival.sentence}", *verdict.problems])
