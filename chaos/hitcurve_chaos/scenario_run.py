"""One scenario on one target: baseline, fault, watching, undoing, recovery, verdict.

Whatever happens in between, a fault that may have been injected is undone before this module lets go, and the
journal tells it.
"""

import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hitcurve_chaos.baseline import Baseline, await_steady
from hitcurve_chaos.drivers.driver import Ending
from hitcurve_chaos.engine_counters import EngineCounters, read_counters
from hitcurve_chaos.faults.fault import Fault, Injection, Undo
from hitcurve_chaos.idle import await_idle, usage_after_a_request
from hitcurve_chaos.interrupts import held_back
from hitcurve_chaos.journal import Event, Journal
from hitcurve_chaos.progress import Progress
from hitcurve_chaos.scenarios.scenario import Bench, Scenario, Spans
from hitcurve_chaos.targets import describe

__all__ = ["INTERRUPTED", "ScenarioRun"]

INTERRUPTED = "interrupted"

_ANSWER_EVERY_S = 1.0
_USAGE_WITHIN_S = 5.0
_FEW = 5
"""Requests that say nothing about a share yet."""


@dataclass(slots=True)
class ScenarioRun:
    """What happened so far; ``hitcurve_chaos.conclusion`` makes a verdict of it. Times are Unix seconds."""

    scenario: Scenario
    make_bench: Callable[[float], Bench]
    """The bench, given the begin of the baseline."""
    bench: Bench
    journal: Journal
    progress: Progress
    load_problem: Callable[[], str | None]
    judges_requests: bool
    baseline: Baseline | None = None
    fault: Fault | None = None
    injection: Injection | None = None
    undo: Undo | None = None
    fault_from_s: float | None = None
    fault_to_s: float | None = None
    watched_to_s: float | None = None
    recovered_at_s: float | None = None
    answered: bool | None = None
    """Whether the engine completed a request after the fault; ``None`` until that was tried."""
    ending: Ending | None = None
    """How the engine ended, where it completes no request and that can be seen."""
    usage_before: float | None = None
    usage_after: float | None = None
    """KV usage around a drill, both read right after a request."""
    finished_at_s: float | None = None
    aborted: str | None = None
    abort_reason: str | None = None
    """Why the fault was ended before its time."""
    troubles: list[str] = field(default_factory=list)

    @property
    def spans(self) -> Spans | None:
        """Times of the run, once the fault was watched."""
        if self.baseline is None or self.fault_from_s is None or self.watched_to_s is None:
            return None
        return Spans(self.baseline.from_s, self.fault_from_s, self.watched_to_s)

    def proceed(self) -> None:
        """Go through all phases. Raises what the phases raise, after undoing."""
        settings = self.bench.settings
        self._note("scenario_started", target=self.bench.target.name, settings=dict(settings))
        self._note("baseline_started")
        self.baseline = self._steady_before()
        if not self.baseline.met:
            self._note("hypothesis_not_met", reason=self.baseline.reason)
            return
        self._note("hypothesis_met", since_s=self.baseline.from_s)
        self.bench = self.make_bench(self.baseline.from_s)
        self._check("before the fault")
        self._with_fault(self.scenario.fault(self.bench))
        if self.injection is not None and self.injection.outcome == "applied":
            if self.scenario.under_load:
                self._recover()
            else:
                self._recover_drill()
            if self.answered:
                self._check("after the fault")

    def _steady_before(self) -> Baseline:
        settings, bench = self.bench.settings, self.bench
        if self.scenario.under_load:
            self._say(f"waiting until the curve is steady for {settings['baseline']:g} s")
            return await_steady(bench.watch, settings, self.load_problem, judges_requests=self.judges_requests)
        met = await_idle(bench.probe, bench.clock, self._counters, settings["baseline_within"])
        self.usage_before = usage_after_a_request(bench.probe, bench.clock, self._counters, None, 0.0)
        return met

    def _check(self, when: str, within_s: float = math.inf) -> None:
        if self.bench.correctness is not None and self.bench.settings["correctness"]:
            clock, began_s = self.bench.clock, self.bench.clock.now()
            self.bench.correctness.check(when, may_ask=lambda: clock.now() - began_s < within_s)

    def _counters(self) -> EngineCounters | None:
        return read_counters(self.bench.target)

    def _with_fault(self, fault: Fault) -> None:
        self.fault = fault
        record, target = fault.record(), describe(self.bench.target)
        self._note("fault_injecting", record=record, target=target, machine=platform.node())
        self.fault_from_s = self.bench.clock.now()
        try:
            self.injection = fault.inject()
            self.fault_to_s = self.bench.clock.now()
            self.fault_from_s = self.injection.at_s or self.fault_from_s
            self._tell_injection(self.injection)
            if self.injection.outcome == "applied":
                self._hold(fault)
        finally:
            if self.injection is None or self.injection.touched:
                self._undo(fault)

    def _tell_injection(self, injection: Injection) -> None:
        event: Event = "fault_injected" if injection.outcome == "applied" else "fault_refused"
        self._note(
            event,
            outcome=injection.outcome,
            touched=injection.touched,
            sentence=injection.sentence,
            **injection.detail,
        )
        self._say(injection.sentence)

    def _hold(self, fault: Fault) -> None:
        if not self.scenario.under_load:
            self.watched_to_s = self.bench.clock.now()
            return
        # An engine that is overloaded takes a minute an answer; the fault's own traffic does not last for ever.
        self._check("during the fault", self.bench.settings["hold"])

        def before_step(step: Mapping[str, Any]) -> None:
            record, target = fault.record(), describe(self.bench.target)
            self._note("fault_continuing", record=record, target=target, machine=platform.node(), step=dict(step))

        watch, hold_s = self.bench.watch, self.bench.settings["hold"]
        if watch.until(self._must_abort, hold_s, tick=lambda: fault.tick(before_step)):
            self._note("fault_aborted", reason=self.abort_reason)
            self._say(f"ABORTED: {self.abort_reason}")
        self.watched_to_s = self.bench.clock.now()

    def _must_abort(self) -> bool:
        """Whether the fault hurts more than it may: too many requests of the background load fail."""
        if not self.judges_requests or self.fault_from_s is None:
            return False
        sent = self.bench.watch.requests.between(self.fault_from_s, self.bench.clock.now())
        failed = sum(not record.ok for record in sent)
        if len(sent) < _FEW or failed <= self.bench.settings["abort_failed_share"] * len(sent):
            return False
        self.abort_reason = f"{failed} of {len(sent)} background requests failed during the fault"
        return True

    def _undo(self, fault: Fault) -> None:
        """Undo, twice if need be; neither a full disk nor a second Ctrl-C keeps it from happening."""
        with held_back():
            self._note_if_possible("fault_undoing")
            for _ in range(2):
                try:
                    self.undo = fault.undo()
                except (Exception, KeyboardInterrupt) as error:
                    self.undo = Undo(False, f"undoing failed: {error or type(error).__name__}")
                if self.undo.restored:
                    break
            assert self.undo is not None
            if not self.scenario.single_blow:
                self.fault_to_s = self.bench.clock.now()
            event: Event = "fault_undone" if self.undo.restored else "fault_undo_failed"
            self._note_if_possible(event, sentence=self.undo.sentence, **self.undo.detail)
            self._say(self.undo.sentence if self.undo.restored else f"SYSTEM NOT RESTORED: {self.undo.sentence}")

    def _recover(self) -> None:
        settings, watch = self.bench.settings, self.bench.watch
        self._say(f"waiting until the curve is steady again, at most {settings['recover_within']:g} s")
        undone_s = self.bench.clock.now()
        asked_s = [0.0]

        def recovered() -> bool:
            if not self.answered and self.bench.clock.now() - asked_s[0] >= _ANSWER_EVERY_S:
                asked_s[0] = self.bench.clock.now()
                self.answered = self._engine_answers(undone_s)
            self.recovered_at_s = self._steady_again()
            return bool(self.answered) and self.recovered_at_s is not None

        watch.until(lambda: recovered() or self._gone_for_good(), settings["recover_within"])
        if self.answered and self.recovered_at_s is not None:
            self._note("recovered", at_s=self.recovered_at_s)
        else:
            last = watch.curve.last
            state = last.state if last else None
            if not self.answered:
                self.recovered_at_s = None
            self._note("not_recovered", state=state, answered=self.answered)

    def _recover_drill(self) -> None:
        """A completion, and blocks let go of: a drill is over when the engine is as it was."""
        bench, settings = self.bench, self.bench.settings
        undone_s = bench.clock.now()
        while not self._engine_answers(undone_s):
            if self._gone_for_good() or bench.clock.now() - undone_s >= settings["recover_within"]:
                self.answered = False
                self._note("not_recovered", state=None, answered=False)
                return
            bench.watch.for_seconds(_ANSWER_EVERY_S)
        self.answered = True
        left_s = settings["recover_within"] - (bench.clock.now() - undone_s)
        self.usage_after = usage_after_a_request(
            bench.probe, bench.clock, self._counters, self.usage_before, min(left_s, _USAGE_WITHIN_S)
        )
        self.recovered_at_s = bench.clock.now()
        bench.watch.look()
        self._note("recovered", at_s=self.recovered_at_s)

    def _engine_answers(self, since_s: float) -> bool:
        """A completion is the only proof: a hung engine may still answer health checks and list its models."""
        if self.bench.watch.requests.completed_since(since_s):
            return True
        answer = self.bench.probe.ask(self.bench.probe.new_prompt(16))
        if not answer.completed:
            driver = self.bench.drivers.of(self.bench.target)
            self.ending = driver.ending() if driver else None
            how = f"it {self.ending.sentence}" if self.ending else answer.reason
            self._say(f"the engine does not answer: {how}")
        return answer.completed

    def _gone_for_good(self) -> bool:
        return not self.answered and self.ending is not None and self.ending.for_good

    def _steady_again(self) -> float | None:
        """When the curve was steady again at (nearly) its old level, at the first scrape that showed it.

        After a single blow only scrapes after the curve left ``steady`` count: the ones right after the blow may
        not show it yet.
        """
        assert self.baseline is not None
        assert self.fault_from_s is not None
        assert self.watched_to_s is not None
        curve = self.bench.watch.curve
        level = curve.rate(self.baseline.from_s, self.fault_from_s)
        if level is None:
            return None
        points = curve.between(self.watched_to_s, float("inf"))
        if self.scenario.single_blow:
            after = curve.between(self.fault_from_s, float("inf"))
            left = next((i for i, point in enumerate(after) if point.state != "steady"), None)
            points = after[left:] if left is not None else points
        wanted = level * self.bench.settings["recovered_share"]
        for point in points:
            if point.state == "steady" and point.rate is not None and point.rate >= wanted:
                return point.at_s
        return None

    def _say(self, text: str) -> None:
        self.progress.step(self.scenario.name, text)

    def _note(self, event: Event, /, **detail: Any) -> None:
        self.journal.write(self.scenario.name, event, **detail)

    def _note_if_possible(self, event: Event, /, **detail: Any) -> None:
        try:
            self._note(event, **detail)
        except OSError as error:
            self.troubles.append(f"the journal could not be written: {error}")
