"""One run as ``hitcurve chaos run`` asks for it: engines and drivers opened, ``run.json`` and report written."""

import errno
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hitcurve.errors import EnvironmentFailed, HitcurveError, UsageError
from hitcurve_chaos.active import ActiveScenario, serve_active
from hitcurve_chaos.calls import HttpTransport
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.engine_lock import held_engines
from hitcurve_chaos.interrupts import ended_like_interrupted
from hitcurve_chaos.journal import JOURNAL_FILE
from hitcurve_chaos.opened import opened
from hitcurve_chaos.parameters import Settings
from hitcurve_chaos.progress import Progress
from hitcurve_chaos.reachable import require_answering
from hitcurve_chaos.report import write_report
from hitcurve_chaos.results import Results
from hitcurve_chaos.run_lock import make_run_folder
from hitcurve_chaos.run_record import RunRecord
from hitcurve_chaos.runner import run_planned
from hitcurve_chaos.scenarios.scenario import Scenario
from hitcurve_chaos.targets import Target

__all__ = ["RunRequest", "carry_out"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to run on what; ``repeat_for_s`` seconds long where it is given."""

    target: Target
    planned: Sequence[tuple[Scenario, Settings]]
    folder: Path
    seed: int
    repeat_for_s: float | None = None
    metrics_listen: str | None = None


def carry_out(request: RunRequest, progress: Progress, results: Results | None = None) -> Results:
    """Run it and write the report, also of a run that something ended before its time.

    ``results`` is filled and returned. UsageError and EnvironmentFailed before anything is injected.
    """
    folder, results = request.folder, results if results is not None else Results()
    request.target.admin_headers()
    if (folder / JOURNAL_FILE).exists():
        raise UsageError(f"{folder} already holds a run; name a new folder with --out.")
    try:
        _run(request, progress, results)
    except BaseException:
        if results.verdicts:
            with suppress(OSError, HitcurveError):
                write_report(folder)
        raise
    with _told_of_a_full_disk(folder):
        write_report(folder)
    return results


def _run(request: RunRequest, progress: Progress, results: Results) -> None:
    transport, clock, folder = HttpTransport(), SystemClock(), request.folder
    engines = [] if request.target.start else [one.engine for one in (request.target, *request.target.replicas)]
    with held_engines(engines), ended_like_interrupted(), _told_of_a_full_disk(folder), ExitStack() as stack:
        if request.target.start is None:
            require_answering(request.target, transport)
        active = ActiveScenario()
        if request.metrics_listen is not None:
            url = stack.enter_context(serve_active(active, request.metrics_listen))
            progress.step("metrics", f"hitcurve_chaos_active at {url}")
        if request.target.start is not None:
            make_run_folder(folder)
            progress.step("engine", "starting the target's own engines")
        target, drivers = stack.enter_context(opened(request.target, folder))
        names = [scenario.name for scenario, _ in request.planned]
        stack.enter_context(RunRecord(folder, target, names, request.seed, transport, clock))
        until_s = None if request.repeat_for_s is None else clock.now() + request.repeat_for_s
        run_planned(
            target,
            request.planned,
            folder,
            request.seed,
            progress,
            drivers=drivers,
            until_s=until_s,
            active=active,
            results=results,
        )


@contextmanager
def _told_of_a_full_disk(folder: Path) -> Iterator[None]:
    """EnvironmentFailed in place of the OSError of a disk that takes nothing more; faults are undone by then."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise EnvironmentFailed(
            f"{folder} cannot be written ({error.strerror}), so the run ended there, after undoing; make room, "
            f"and see that nothing is left with 'hitcurve chaos recover {folder}'."
        ) from error
