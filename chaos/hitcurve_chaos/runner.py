"""Running scenarios one after another on one target, into one run folder.

``run_scenarios`` is the programming interface; ``hitcurve chaos run`` and ``hitcurve demo`` call it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from hitcurve.errors import HitcurveError, UsageError
from hitcurve_chaos.calls import HttpTransport, Transport
from hitcurve_chaos.clock import Clock, SystemClock
from hitcurve_chaos.conclusion import NOT_RESTORED, conclude
from hitcurve_chaos.interrupts import held_back
from hitcurve_chaos.journal import JOURNAL_FILE, JournalFile
from hitcurve_chaos.loads import Loads, RunningLoad
from hitcurve_chaos.observe import CurveSource
from hitcurve_chaos.parameters import Settings, resolve
from hitcurve_chaos.polled_source import open_source
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.process_loads import ProcessLoads
from hitcurve_chaos.progress import Progress, Silent
from hitcurve_chaos.request_tail import BACKGROUND, REQUESTS_FILE
from hitcurve_chaos.run_lock import held, make_run_folder
from hitcurve_chaos.scenario_run import ScenarioRun
from hitcurve_chaos.scenarios.registry import find_scenarios
from hitcurve_chaos.scenarios.scenario import Bench, Scenario
from hitcurve_chaos.targets import Target, require_allowed
from hitcurve_chaos.verdict import Verdict, as_json, write_verdicts
from hitcurve_chaos.watch import Watch

__all__ = ["Tools", "plan", "run_scenarios"]

_MARGIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Tools:
    """What a run acts with."""

    clock: Clock
    transport: Transport
    loads: Callable[[Target, Path, int], Loads]
    """Given the target, the run folder and the seed."""
    source: Callable[[Target, Transport], AbstractContextManager[CurveSource]]


def run_scenarios(
    target: Target,
    scenarios: Sequence[str],
    out_dir: Path,
    seed: int,
    parameters: Mapping[str, object],
    progress: Progress | None = None,
    *,
    tools: Tools | None = None,
) -> list[Verdict]:
    """Run scenarios in order and return their verdicts; the folder is described in docs/run_folder.md.

    The target's background load runs from before the first baseline to the end. UsageError before anything is
    touched where the target is not allowed, a scenario or parameter unknown, or the folder not writable;
    EnvironmentFailed where the background load does not start. Later failures of the environment make a verdict
    ``invalid``. KeyboardInterrupt is passed on after undoing, with the verdicts so far on disk.
    """
    require_allowed(target)
    planned = plan(scenarios, parameters)
    folder = out_dir.resolve()
    make_run_folder(folder)
    with held(folder, otherwise=f"{folder} is in use by another run; name a new folder with --out."):
        return _run_in(folder, target, planned, seed, progress or Silent(), tools)


def _run_in(
    folder: Path,
    target: Target,
    planned: Sequence[tuple[Scenario, Settings]],
    seed: int,
    progress: Progress,
    tools: Tools | None,
) -> list[Verdict]:
    if (folder / JOURNAL_FILE).exists():
        raise UsageError(f"{folder} already holds a run; name a new folder with --out.")
    tools = tools or Tools(SystemClock(), HttpTransport(), ProcessLoads, open_source)
    loads = tools.loads(target, folder, seed)
    with tools.source(target, tools.transport) as source:
        run = _Run(target, folder, seed, tools, progress, loads, Watch(source, folder, tools.clock))
        try:
            run.start_background(planned)
            for scenario, settings in planned:
                run.scenario(scenario, settings)
        finally:
            run.stop_background()
    return run.verdicts


def plan(names: Sequence[str], parameters: Mapping[str, object]) -> list[tuple[Scenario, Settings]]:
    """The scenarios of those names with their settings.

    A parameter counts for every scenario that has it; UsageError where none has, or a value does not fit.
    """
    scenarios = find_scenarios(names)
    everything = {p.name: p for scenario in scenarios for p in scenario.all_parameters()}
    resolve(list(everything.values()), parameters)
    planned: list[tuple[Scenario, Settings]] = [
        (scenario, resolve(scenario.all_parameters(), parameters, strict=False)) for scenario in scenarios
    ]
    for _, settings in planned:
        if settings["baseline"] > settings["baseline_within"]:
            raise UsageError(
                f"nothing can be steady for {settings['baseline']:g} s within {settings['baseline_within']:g} s; "
                "raise --baseline-within or lower --baseline."
            )
    return planned


@dataclass(slots=True)
class _Run:
    target: Target
    folder: Path
    seed: int
    tools: Tools
    progress: Progress
    loads: Loads
    watch: Watch
    verdicts: list[Verdict] = field(default_factory=list)
    _background: RunningLoad | None = None

    def start_background(self, planned: Sequence[tuple[Scenario, Settings]]) -> None:
        if not self.target.load:
            self.progress.step("load", "the target file names no load; the traffic of others is watched")
            return
        longest_s = sum(s["baseline_within"] + s["hold"] + s["recover_within"] + _MARGIN_S for _, s in planned)
        self.progress.step("load", "starting the background load")
        self._background = self.loads.start(BACKGROUND, {**self.target.load, "duration": longest_s})

    def stop_background(self) -> None:
        if self._background is not None:
            with held_back():
                self._background.stop()

    def scenario(self, scenario: Scenario, settings: Settings) -> None:
        """Run one, whatever comes of it; its verdict is on disk when this returns or raises."""
        journal = JournalFile(self.folder, self.tools.clock)
        run = ScenarioRun(
            scenario=scenario,
            make_bench=lambda since_s: self._bench(settings, since_s),
            bench=self._bench(settings, self.tools.clock.now()),
            journal=journal,
            progress=self.progress,
            load_problem=self._load_problem,
            judges_requests=self._background is not None,
        )
        unrestored = next((v.scenario for v in self.verdicts if not v.restored), None)
        try:
            if unrestored is not None:
                run.aborted = f"not started, {NOT_RESTORED} after {unrestored}"
            else:
                run.proceed()
        except KeyboardInterrupt:
            run.aborted = "interrupted"
            raise
        except HitcurveError as error:
            run.aborted = str(error)
        except BaseException as error:
            run.aborted = f"{type(error).__name__}: {error}"
            raise
        finally:
            verdict = conclude(run)
            self.verdicts.append(verdict)
            write_verdicts(self.folder, self.verdicts)
            journal.write(scenario.name, "scenario_finished", **as_json(verdict))
            self.progress.verdict(verdict)

    def _load_problem(self) -> str | None:
        return self._background.problem() if self._background is not None else None

    def _bench(self, settings: Settings, baseline_from_s: float) -> Bench:
        # Each scenario draws from the seed alone, so that it does the same whichever ran before it.
        randomness = random.Random(f"{self.seed} {len(self.verdicts)}")
        return Bench(
            target=self.target,
            settings=settings,
            watch=self.watch,
            loads=self.loads,
            probe=Probe(
                self.target, self.tools.transport, randomness, self.tools.clock, self.folder / REQUESTS_FILE
            ),
            transport=self.tools.transport,
            clock=self.tools.clock,
            randomness=randomness,
            seed=self.seed,
            baseline_from_s=baseline_from_s,
        )
