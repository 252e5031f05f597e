"""Running scenarios one after another on one target, into one run folder.

``run_scenarios`` is the programming interface; ``hitcurve chaos run`` and ``hitcurve demo`` call it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from hitcurve.errors import HitcurveError, UsageError
from hitcurve_chaos.active import ActiveScenario
from hitcurve_chaos.calls import HttpTransport, Transport
from hitcurve_chaos.capabilities import Capabilities
from hitcurve_chaos.clock import Clock, SystemClock
from hitcurve_chaos.conclusion import NOT_RESTORED, conclude
from hitcurve_chaos.correctness import Correctness
from hitcurve_chaos.engine_counters import read_counters
from hitcurve_chaos.interrupts import held_back
from hitcurve_chaos.journal import JOURNAL_FILE, JournalFile
from hitcurve_chaos.loads import Loads, RunningLoad
from hitcurve_chaos.observe import CurveSource
from hitcurve_chaos.opened import Drivers
from hitcurve_chaos.parameters import Settings
from hitcurve_chaos.plan import Planned, plan
from hitcurve_chaos.polled_source import open_source
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.process_loads import ProcessLoads
from hitcurve_chaos.progress import Progress, Silent
from hitcurve_chaos.request_tail import BACKGROUND, REQUESTS_FILE
from hitcurve_chaos.results import Results
from hitcurve_chaos.revival import left_silent, revive, with_revival
from hitcurve_chaos.run_lock import held, make_run_folder
from hitcurve_chaos.scenario_run import INTERRUPTED, ScenarioRun
from hitcurve_chaos.scenarios.scenario import Bench, Scenario
from hitcurve_chaos.targets import Target, require_allowed
from hitcurve_chaos.verdict import Skipped, Verdict, as_json, write_skipped, write_verdicts
from hitcurve_chaos.watch import Watch

__all__ = ["Results", "Tools", "plan", "run_planned", "run_scenarios"]

_MARGIN_S = 60.0
_MOST_AGAIN_S = 600.0
"""How much longer a load is made where the plan is repeated; then another one is started."""
_UNKNOWN_BLOCK_TOKENS = 64


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
    planned = plan(scenarios, parameters)
    return list(run_planned(target, planned, out_dir, seed, progress, tools=tools).verdicts)


def run_planned(
    target: Target,
    planned: Planned,
    out_dir: Path,
    seed: int,
    progress: Progress | None = None,
    *,
    tools: Tools | None = None,
    drivers: Drivers | None = None,
    until_s: float | None = None,
    active: ActiveScenario | None = None,
    results: Results | None = None,
) -> Results:
    """``run_scenarios`` for scenarios with settings of their own; drills run without the background load.

    With ``until_s`` (Unix seconds) the plan is repeated until then; a scenario that was begun is finished.
    ``active`` is told which scenario runs. ``results`` is what is filled and returned, for whoever wants to know
    what came of a run that something ended before its time.
    """
    require_allowed(target)
    results = results if results is not None else Results()
    folder = out_dir.resolve()
    make_run_folder(folder)
    with held(folder, otherwise=f"{folder} is in use by another run; name a new folder with --out."):
        if (folder / JOURNAL_FILE).exists():
            raise UsageError(f"{folder} already holds a run; name a new folder with --out.")
        tools = tools or Tools(SystemClock(), HttpTransport(), ProcessLoads, open_source)
        loads = tools.loads(target, folder, seed)
        with tools.source(target, tools.transport) as source:
            watch = Watch(source, folder, tools.clock)
            told, driven = progress or Silent(), drivers or Drivers()
            run = _Run(target, folder, seed, tools, told, loads, watch, driven, results, active)
            try:
                run.all(planned, until_s)
            finally:
                run.stop_background()
        return results


@dataclass(slots=True)
class _Run:
    target: Target
    folder: Path
    seed: int
    tools: Tools
    progress: Progress
    loads: Loads
    watch: Watch
    drivers: Drivers
    results: Results
    active: ActiveScenario | None
    _background: RunningLoad | None = None
    _background_ends_s: float = 0.0
    _until_s: float | None = None
    _capabilities: Capabilities | None = None
    _begun: int = 0

    def all(self, planned: Planned, until_s: float | None) -> None:
        """Every scenario once, or again and again until ``until_s``, as long as one can be begun."""
        self._until_s = until_s
        while True:
            before = len(self.results.verdicts)
            for place, (scenario, settings) in enumerate(planned):
                rest = planned[place:]
                self._begun += 1
                # What may not be started is judged, not skipped.
                may_start = self._why_not_started() is None
                reason = self.capabilities.lack(scenario.needs) if may_start else None
                if reason is not None:
                    self._skip(scenario, reason)
                    continue
                if may_start:
                    self._prepare_load(scenario, settings, rest)
                self.scenario(scenario, settings)
            nothing_more = len(self.results.verdicts) == before or self._why_not_started() is not None
            if until_s is None or nothing_more or self.tools.clock.now() >= until_s:
                return

    @property
    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            probe = self._probe(random.Random(f"{self.seed} capabilities"))
            self._capabilities = Capabilities(self.target, self.tools.transport, probe, self.drivers)
        return self._capabilities

    def _skip(self, scenario: Scenario, reason: str) -> None:
        at_s = self.tools.clock.now()
        self.results.skipped.append(Skipped(scenario.name, scenario.title, reason, at_s))
        write_skipped(self.folder, self.results.skipped)
        JournalFile(self.folder, self.tools.clock).write(scenario.name, "scenario_skipped", reason=reason)
        self.progress.step(scenario.name, f"skipped: {reason}")

    def _prepare_load(self, scenario: Scenario, settings: Settings, rest: Planned) -> None:
        ends_s = self.tools.clock.now() + _longest_s(settings)
        if not scenario.under_load or self._load_problem() is not None or ends_s > self._background_ends_s:
            self.stop_background()
        if scenario.under_load and self._background is None:
            self.start_background([settings for s, settings in rest if s.under_load])

    def start_background(self, settings: Sequence[Settings]) -> None:
        """Long enough for scenarios with these settings, and not much longer: a killed run leaves it behind."""
        if not self.target.load:
            self.progress.step("load", "the target file names no load; the traffic of others is watched")
            return
        now_s = self.tools.clock.now()
        again_s = 0.0 if self._until_s is None else self._until_s - now_s
        longest_s = sum(map(_longest_s, settings)) + min(max(again_s, 0.0), _MOST_AGAIN_S)
        self.progress.step("load", "starting the background load")
        self._background_ends_s = now_s + longest_s
        self._background = self.loads.start(BACKGROUND, {**self.target.load, "duration": longest_s})

    def stop_background(self) -> None:
        if self._background is not None:
            with held_back():
                self._background.stop()
            self._background = None

    def scenario(self, scenario: Scenario, settings: Settings) -> None:
        """Run one, whatever comes of it; its verdict is on disk when this returns or raises."""
        journal = JournalFile(self.folder, self.tools.clock)
        make_bench = self._bench_maker(scenario, settings)
        run = ScenarioRun(
            scenario=scenario,
            make_bench=make_bench,
            bench=make_bench(self.tools.clock.now()),
            journal=journal,
            progress=self.progress,
            load_problem=self._load_problem,
            judges_requests=self._background is not None,
        )
        refusal = self._why_not_started()
        if self.active is not None:
            self.active.begin(scenario.name)
        try:
            if refusal is not None:
                run.aborted = refusal
            else:
                run.proceed()
        except KeyboardInterrupt:
            run.aborted = INTERRUPTED
            raise
        except HitcurveError as error:
            run.aborted = str(error)
        except BaseException as error:
            run.aborted = f"{type(error).__name__}: {error}"
            raise
        finally:
            with held_back():
                self._finish(run, journal)

    def _finish(self, run: ScenarioRun, journal: JournalFile) -> None:
        name, driver = run.scenario.name, self.drivers.of(self.target)
        if self.active is not None:
            self.active.end(name)
        verdict = conclude(run)
        if left_silent(run, driver):
            why_none = self.drivers.why_none(self.target)
            verdict = with_revival(verdict, revive(run, driver, why_none, journal, self.progress))
        self.results.verdicts.append(verdict)
        write_verdicts(self.folder, self.results.verdicts)
        journal.write(name, "scenario_finished", **as_json(verdict))
        self.progress.verdict(verdict)

    def _why_not_started(self) -> str | None:
        """Why no further scenario is started; ``None`` where one may be."""
        unrestored = next((v.scenario for v in self.results.verdicts if not v.restored), None)
        return None if unrestored is None else f"not started, {NOT_RESTORED} after {unrestored}"

    def _load_problem(self) -> str | None:
        return self._background.problem() if self._background is not None else None

    def _probe(self, randomness: random.Random) -> Probe:
        requests = self.folder / REQUESTS_FILE
        return Probe(self.target, self.tools.transport, randomness, self.tools.clock, requests)

    def _bench_maker(self, scenario: Scenario, settings: Settings) -> Callable[[float], Bench]:
        # Each scenario draws from the seed alone, so that it does the same whichever ran before it.
        randomness = random.Random(f"{self.seed} {self._begun}")
        probe = self._probe(randomness)
        correctness = None
        if self.capabilities.has("token_ids"):
            found = read_counters(self.target)
            size = found.block_size if found and found.block_size else _UNKNOWN_BLOCK_TOKENS
            correctness = Correctness(probe, size, self.capabilities.has("salts"))

        prefix = f"chaos-{int(self.tools.clock.now())}-{randomness.randrange(16**4):04x}-"

        def make(baseline_from_s: float) -> Bench:
            return Bench(
                target=self.target,
                settings=settings,
                watch=self.watch,
                loads=self.loads,
                probe=probe,
                transport=self.tools.transport,
                clock=self.tools.clock,
                randomness=randomness,
                seed=self.seed,
                baseline_from_s=baseline_from_s,
                folder=self.folder,
                fault_prefix=prefix,
                drivers=self.drivers,
                correctness=correctness,
                say=lambda text: self.progress.step(scenario.name, text),
            )

        return make


def _longest_s(settings: Settings) -> float:
    """How long a scenario under load may take; its outputs are checked for as long as the fault is held."""
    times: float = settings["baseline_within"] + 2 * settings["hold"] + settings["recover_within"]
    return times + _MARGIN_S
