"""The collector of spans is slow, full, hanging or gone: the engine goes on, and counts what is lost."""

from collections.abc import Callable
from functools import partial

from hitcurve_chaos.clock import wait_until
from hitcurve_chaos.correctness import Correctness
from hitcurve_chaos.engine_page import page_text, summed
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.probe import ProbeAnswer
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill, failures, p50_s
from hitcurve_chaos.scenarios.scenario import Bench, Story
from hitcurve_chaos.stand_in_collector import Mode, stand_in_collector

__all__ = ["COLLECTOR_LOST"]

_BLOCKS = 4
_PROMPTS = 4
_AT_ONCE = 4
_SETTLE_S = 40.0
"""Longer than a batch waits by default (5 s) and one is sent again and again (10 s)."""

_Counts = tuple[float, float]


class _Rounds:
    """Asks the same prompts in every round, and waits until the engine has accounted for all spans so far."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._checking: Correctness = bench.checking()
        size = _BLOCKS * bench.block_size + 1
        self._prompts = [bench.probe.new_tokens(size) for _ in range(_PROMPTS)]
        self._computed = [self._checking.first_ever(prompt, "a first-ever prompt") for prompt in self._prompts]
        self._before: _Counts | None = None
        self.answers: list[ProbeAnswer] = []
        self.counts: _Counts | None = None
        """Spans taken and dropped since ``settle``; ``None`` while that is not known."""

    def settle(self) -> None:
        """Count from what the engine counts once that no longer changes."""
        readings: list[_Counts | None] = []

        def still() -> bool:
            readings.append(_read(self._bench))
            return readings[-1] is not None and readings[-1:] == readings[-2:-1]

        wait_until(still, _SETTLE_S, clock=self._bench.clock, every_s=1.0)
        self._before = readings[-1]

    def ask(self, when: str) -> float | None:
        """Median seconds of a round's requests, once the engine has accounted for their spans or had the time."""
        count = int(self._bench.settings["requests"])
        which = [number % _PROMPTS for number in range(count)]
        asks: list[Callable[[], ProbeAnswer]] = [partial(self._checking.ask, self._prompts[one]) for one in which]
        answers = self._bench.probe.ask_all(asks, at_once=_AT_ONCE)
        for one, answer in zip(which, answers, strict=True):
            self._checking.same(answer, self._computed[one], f"a prompt while the collector {when}")
        self.answers += answers
        wait_until(self._all_accounted, _SETTLE_S, every_s=0.2)
        return p50_s(answers)

    def _all_accounted(self) -> bool:
        now, before = _read(self._bench), self._before
        self.counts = None if now is None or before is None else (now[0] - before[0], now[1] - before[1])
        return self.counts is not None and sum(self.counts) >= len(self.answers)


def _act(bench: Bench, numbers: Numbers) -> Injection:
    assert bench.target.collector is not None
    rounds = _Rounds(bench)
    slowest: list[float | None] = []
    try:
        with stand_in_collector(bench.target.collector) as collector:
            rounds.settle()
            earlier = collector.spans
            usual_s = rounds.ask("takes spans")
            numbers["arrived_before"] = collector.spans - earlier
            for mode, when in _MODES:
                collector.mode = mode
                slowest.append(rounds.ask(when))
            received = collector.spans - earlier
            numbers["turned_away"] = collector.turned_away
        slowest.append(rounds.ask("is gone"))
        with stand_in_collector(bench.target.collector) as collector:
            rounds.ask("is back")
            numbers["arrived_again"] = collector.spans
            received += collector.spans
    except OSError as error:
        return Injection("failed", f"nothing can listen at {bench.target.collector} ({error.strerror or error})")
    known_s = [took_s for took_s in slowest if took_s is not None]
    numbers["failed"] = failures(rounds.answers)
    numbers["added_s"] = max(known_s) - usual_s if known_s and usual_s is not None else None
    said = "the collector was slow, full, hung, reset connections and was gone"
    if rounds.counts is None:
        return applied(f"{said}; the engine does not tell how many spans were lost")
    taken, dropped = rounds.counts
    numbers |= {
        "dropped": dropped,
        "lost_silently": max(0.0, len(rounds.answers) - taken - dropped),
        "claimed": max(0.0, taken - received),
    }
    return applied(f"{said}; {dropped:.0f} spans lost")


_MODES: tuple[tuple[Mode, str], ...] = (
    ("slow", "is slow"),
    ("full", "is full"),
    ("hangs", "hangs"),
    ("resets", "resets connections"),
)


def _read(bench: Bench) -> _Counts | None:
    """Spans taken and dropped since the engine's start; ``None`` where its page cannot be had or does not tell."""
    page = page_text(bench.target.engine)
    taken = None if page is None else summed(page, "hitcurve_engine_spans_total")
    if page is None or taken is None:
        return None
    # A reason has no sample before the first span that is lost for it.
    return taken, summed(page, "hitcurve_engine_dropped_spans_total") or 0.0


COLLECTOR_LOST = drill(
    name="collector-lost",
    title="The collector of spans is lost",
    expected="Answers are the same and as soon; spans that do not arrive are counted, and they arrive again.",
    act=_act,
    expectations=(
        Expectation("failed", "requests that failed while the collector was lost", AtMost(0)),
        Expectation("added_s", "seconds that the worst collector added to the median request", AtMost(0.5)),
        Expectation("lost_silently", "requests whose span neither arrived nor was counted as dropped", AtMost(0)),
        Expectation("claimed", "spans the engine counts as taken that the collector did not take", AtMost(0)),
        Expectation("arrived_again", "spans that arrived once the collector was back", AtLeast(1)),
    ),
    conditions=(
        Expectation("arrived_before", "spans that arrived before", AtLeast(1)),
        Expectation("turned_away", "batches that the collector did not take", AtLeast(1)),
    ),
    needs=(*TOKENS, "counters", "collector"),
    parameters=(Parameter("requests", "count", 24, "in each of six rounds", least=1, most=1000),),
    story=Story(
        fault="A collector of the scenario's own takes spans at the target's 'collector', then is slow, is full "
        "(503), hangs, resets connections, and is gone; at last it is back.",
        signature="hitcurve_engine_dropped_spans_total rises by what hitcurve_engine_spans_total does not.",
        rollback="The collector is part of the run and ends with it.",
        safety="Spans of these minutes go to the scenario or are lost. Your own collector is not touched: where "
        "it listens at that address the scenario does not run.",
    ),
)
