"""From what happened in a scenario run to its verdict."""

from collections.abc import Sequence
from statistics import quantiles

from hitcurve.rate_text import percent
from hitcurve_chaos.correctness import ANSWERED, COMPARED, WORST
from hitcurve_chaos.hypothesis import AtMost, Expectation, Judgement
from hitcurve_chaos.measure import NEVER, foreign_share, measure, sentence
from hitcurve_chaos.scenario_run import ScenarioRun
from hitcurve_chaos.verdict import Number, Verdict, VerdictWord

__all__ = ["NOT_RESTORED", "conclude"]

NOT_RESTORED = "system not restored"
_MOST_FINDINGS = 5
_MOST_FOREIGN = 0.5
"""Of the query tokens. A few always differ: requests on their way at either end of a span, an engine's own."""
_HELD = 0.005
"""Of the pool; a block or two may belong to the request that was used to look."""


def conclude(run: ScenarioRun) -> Verdict:
    """The verdict: ``ok`` only for a fault applied, seen, undone and recovered from, under sound traffic."""
    finished_at_s = run.bench.clock.now()
    run.finished_at_s = finished_at_s
    word, seen, numbers, problems, judgements = _judge(run, finished_at_s)
    findings = run.bench.correctness.findings if run.bench.correctness else []
    if findings and word != "bad":
        # A wrong hit needs no steady curve and no applied fault to be one.
        word, seen = "bad", f"{findings[0]}. {seen}"
    problems = [*findings[:_MOST_FINDINGS], *problems]
    restored = run.undo is None or run.undo.restored
    if not restored and run.undo is not None:
        word = "bad"
        problems = [f"{NOT_RESTORED}: {run.undo.sentence}", *problems]
    injected = run.injection is not None and run.injection.outcome == "applied"
    from_s = run.baseline.from_s if run.baseline else None
    return Verdict(
        scenario=run.scenario.name,
        title=run.scenario.title,
        verdict=word,
        expected=run.scenario.expected,
        seen=seen,
        numbers=numbers,
        baseline_from_s=from_s,
        fault_from_s=run.fault_from_s if injected else None,
        fault_to_s=run.fault_to_s if injected else None,
        recovered_at_s=run.recovered_at_s,
        finished_at_s=finished_at_s,
        states=run.bench.watch.curve.transitions(from_s, finished_at_s) if from_s is not None else (),
        restored=restored,
        problems=[*problems, *run.troubles],
        judgements=judgements,
    )


_Judged = tuple[VerdictWord, str, dict[str, Number], list[str], Sequence[Judgement]]


def _judge(run: ScenarioRun, finished_at_s: float) -> _Judged:
    if run.aborted is not None:
        return "invalid", f"The run ended before its time: {run.aborted}.", {}, [run.aborted], ()
    if run.baseline is None or not run.baseline.met:
        reason = run.baseline.reason if run.baseline else "the baseline was not reached"
        word: VerdictWord = run.baseline.word if run.baseline else "invalid"
        return word, f"Nothing was injected: {reason}.", {}, [f"not injected: {reason}"], ()
    if run.injection is None or run.injection.outcome != "applied":
        return _not_injected(run)
    return _judge_curve(run, finished_at_s) if run.scenario.under_load else _judge_drill(run)


def _not_injected(run: ScenarioRun) -> _Judged:
    injection = run.injection
    why = injection.sentence if injection else "the injection did not end"
    # An engine that claims success and did half of it is a finding; one that refuses leaves nothing to judge.
    word: VerdictWord = "bad" if injection is not None and injection.outcome == "partial" else "invalid"
    outcome = injection.outcome if injection else "failed"
    return word, f"The fault was not injected ({outcome}): {why}.", {}, [f"not injected ({outcome}): {why}"], ()


def _judge_curve(run: ScenarioRun, finished_at_s: float) -> _Judged:
    spans, settings, scenario = run.spans, run.bench.settings, run.scenario
    assert spans is not None
    assert run.fault is not None
    assert run.fault_to_s is not None
    numbers = measure(
        run.bench.watch,
        spans,
        settings,
        scenario.named,
        recovered_at_s=run.recovered_at_s,
        finished_at_s=finished_at_s,
    )
    since_s = spans.fault_from_s if scenario.single_blow else run.fault_to_s
    numbers["recovery_s"] = NEVER if run.recovered_at_s is None else run.recovered_at_s - since_s
    numbers.update(scenario.own_numbers(run.bench, run.fault, spans))
    worst = _correctness(run, numbers)
    recovery = Expectation(
        "recovery_s", "seconds until the curve was steady near its baseline", AtMost(settings["recover_within"])
    )
    judgements = _compare([*worst, *scenario.expectations(settings), recovery], numbers)
    unsound = _unsound(run, numbers, finished_at_s)
    unsound += [
        f"the fault did not bite: {j.sentence}" for j in _compare(scenario.conditions, numbers) if not j.met
    ]
    seen = sentence(numbers, recovery_s=numbers["recovery_s"], more=scenario.remark(numbers))
    return _worded(run, seen, numbers, unsound, judgements)


def _judge_drill(run: ScenarioRun) -> _Judged:
    settings, scenario, spans = run.bench.settings, run.scenario, run.spans
    assert run.fault is not None
    assert spans is not None
    assert run.injection is not None
    numbers: dict[str, Number] = dict(scenario.own_numbers(run.bench, run.fault, spans))
    undone_s = run.fault_to_s or spans.watched_to_s
    numbers["recovery_s"] = NEVER if run.recovered_at_s is None else run.recovered_at_s - undone_s
    before, after = run.usage_before, run.usage_after
    numbers["kv_usage_left"] = None if before is None or after is None else max(0.0, after - before)
    worst = _correctness(run, numbers)
    recovery = [
        Expectation(
            "recovery_s", "seconds until the engine completed a request", AtMost(settings["recover_within"])
        ),
        Expectation(
            "kv_usage_left", "share of the pool still held when nothing runs", AtMost(_HELD), optional=True
        ),
    ]
    judgements = _compare([*worst, *scenario.expectations(settings), *recovery], numbers)
    unsound = [
        f"the fault did not bite: {j.sentence}" for j in _compare(scenario.conditions, numbers) if not j.met
    ]
    seen = f"{run.injection.sentence[:1].upper()}{run.injection.sentence[1:]}"
    remark = scenario.remark(numbers)
    return _worded(run, f"{seen}{'; ' + remark if remark else ''}.", numbers, unsound, judgements)


def _worded(
    run: ScenarioRun, seen: str, numbers: dict[str, Number], unsound: list[str], judgements: Sequence[Judgement]
) -> _Judged:
    missed = [judgement.sentence for judgement in judgements if judgement.met is False]
    unknown = [judgement.sentence for judgement in judgements if judgement.met is None]
    if not run.answered:
        silent = "the engine completed no request after the fault"
        silent += f": it {run.ending.sentence}" if run.ending else ""
        return "bad", seen, numbers, [silent, *unsound, *missed], judgements
    word: VerdictWord = "invalid" if unsound else "bad" if missed else "no_data" if unknown else "ok"
    return word, seen, numbers, [*unsound, *missed, *unknown], judgements


def _correctness(run: ScenarioRun, numbers: dict[str, Number]) -> list[Expectation]:
    """What the correctness probe counted, and what is expected of it; nothing where it was not used."""
    correctness = run.bench.correctness
    if correctness is None or not run.bench.settings["correctness"]:
        return []
    numbers.update(correctness.numbers())
    compared = [COMPARED] if not correctness.near_ties else []
    return [*WORST, *compared, ANSWERED]


def _compare(expectations: Sequence[Expectation], numbers: dict[str, Number]) -> list[Judgement]:
    return [
        expectation.judge(numbers.get(expectation.name))
        for expectation in expectations
        if not (expectation.optional and numbers.get(expectation.name) is None)
    ]


def _unsound(run: ScenarioRun, numbers: dict[str, Number], finished_at_s: float) -> list[str]:
    """Why the traffic cannot be relied on; a curve under unsound traffic proves nothing."""
    aborted = f"aborted: {run.abort_reason}" if run.abort_reason else None
    trouble = run.fault.trouble if run.fault else None
    reasons = [problem for problem in (aborted, run.load_problem(), trouble) if problem]
    if not run.judges_requests or run.baseline is None:
        return reasons
    sent = run.bench.watch.requests.between(run.baseline.from_s, finished_at_s)
    failed = [record for record in sent if not record.ok]
    if failed:
        reasons.append(f"{len(failed)} of {len(sent)} background requests failed ({failed[-1].reason})")
    if not sent:
        reasons.append("no background request was answered")
    numbers["foreign_share"] = foreign = foreign_share(run.bench.watch, run.baseline.from_s, run.fault_from_s)
    if foreign is not None and foreign > _MOST_FOREIGN:
        reasons.append(
            f"others use the engine: {percent(foreign, 0, unit=' %')} of the tokens that it looked up before the "
            "fault are of no request of the run"
        )
    late = [record.late_s for record in sent if record.late_s is not None]
    numbers["load_lag_p99_s"] = quantiles(late, n=100, method="inclusive")[98] if len(late) > 1 else None
    lag_s, limit_s = numbers["load_lag_p99_s"], run.bench.settings["max_lag"]
    if isinstance(lag_s, float) and lag_s > limit_s:
        reasons.append(f"the load generator lagged: {lag_s:.2f} s late at p99, the limit is {limit_s:g} s")
    return reasons
