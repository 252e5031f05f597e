"""The collector of spans is slow, full, hanging or gone: the engine goes on, and counts what is lost."""

import re
from collections.abc import Callable
from functools import partial

from hitcurve.scrape import fetch
from hitcurve_chaos.correctness import Correctness
from hitcurve_chaos.engine_counters import wait_until
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
_TIMEOUT_S = 5.0
_LARGEST_PAGE = 32 * 1024 * 1024
_COUNT = r"^%s(?:\{[^}]*\})? ([0-9.e+]+)"
_TAKEN = re.compile((_COUNT % "hitcurve_engine_spans_total").encode(), re.MULTILINE)
_DROPPED = re.compile((_COUNT % "hitcurve_engine_dropped_spans_total").encode(), re.MULTILINE)


class _Rounds:
    """Asks the same prompts in every round, and waits until the engine has accounted for the spans of it."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._checking: Correctness = bench.checking()
        size = _BLOCKS * bench.block_size + 1
        self._prompts = [bench.probe.new_tokens(size) for _ in range(_PROMPTS)]
        self._computed = [self._checking.first_ever(prompt, "a first-ever prompt") for prompt in self._prompts]
        self.answers: list[ProbeAnswer] = []

    def settle(self) -> tuple[float, float]:
        """Spans taken and dropped, as the engine counts them, once that no longer changes."""
        readings = [_counts(self._bench)]

        def still() -> bool:
            self._bench.clock.sleep(1.0)
            readings.append(_counts(self._bench))
            return readings[-1] == readings[-2]

        wait_until(still, _SETTLE_S, every_s=0.1)
        return readings[-1]

    def ask(self, when: str, since: tuple[float, float]) -> tuple[float | None, tuple[float, float]]:
        """Median seconds of a round's requests, and the engine's counts after it."""
        count = int(self._bench.settings["requests"])
        which = [number % _PROMPTS for number in range(count)]
        asks: list[Callable[[], ProbeAnswer]] = [partial(self._checking.ask, self._prompts[one]) for one in which]
        answers = self._bench.probe.ask_all(asks, at_once=_AT_ONCE)
        for one, answer in zip(which, answers, strict=True):
            self._checking.same(answer, self._computed[one], f"a prompt while the collector {when}")
        self.answers += answers
        return p50_s(answers), self.await_spans(count, since)

    def await_spans(self, wanted: int, since: tuple[float, float]) -> tuple[float, float]:
        """The counts once so many spans more are accounted for, or the last ones in time."""
        wait_until(lambda: sum(_counts(self._bench)) - sum(since) >= wanted, _SETTLE_S, every_s=0.2)
        return _counts(self._bench)


def _act(bench: Bench, numbers: Numbers) -> Injection:
    assert bench.target.collector is not None
    rounds, received = _Rounds(bench), 0
    slowest: list[float] = []
    try:
        with stand_in_collector(bench.target.collector) as collector:
            before = rounds.settle()
            received = -collector.spans
            usual_s, counts = rounds.ask("takes spans", before)
            numbers["arrived_before"] = collector.spans + received
            for mode, when in _MODES:
                collector.mode = mode
                took_s, counts = rounds.ask(when, counts)
                slowest += [took_s] if took_s is not None else []
            received += collector.spans
            numbers["turned_away"] = collector.turned_away
        took_s, counts = rounds.ask("is gone", counts)
        slowest += [took_s] if took_s is not None else []
        with stand_in_collector(bench.target.collector) as collector:
            rounds.ask("is back", counts)
            counts = rounds.await_spans(len(rounds.answers), before)
            numbers["arrived_again"] = collector.spans
            received += collector.spans
    except OSError as error:
        return Injection("failed", f"nothing can listen at {bench.target.collector} ({error.strerror or error})")
    taken, dropped = counts[0] - before[0], counts[1] - before[1]
    numbers |= {
        "failed": failures(rounds.answers),
        "dropped": dropped,
        "added_s": max(slowest) - usual_s if slowest and usual_s is not None else None,
        "lost_silently": max(0.0, len(rounds.answers) - taken - dropped),
        "claimed": max(0.0, taken - received),
    }
    return applied(f"the collector was slow, full, hung, reset connections and was gone; {dropped:.0f} spans lost")


_MODES: tuple[tuple[Mode, str], ...] = (
    ("slow", "is slow"),
    ("full", "is full"),
    ("hangs", "hangs"),
    ("resets", "resets connections"),
)


def _counts(bench: Bench) -> tuple[float, float]:
    """Spans taken and dropped since the engine's start; zeros where the page cannot be had."""
    body = fetch(f"{bench.target.engine}/metrics", _TIMEOUT_S, _LARGEST_PAGE).body
    page = body if isinstance(body, bytes) else (body or "").encode()
    return sum(map(float, _TAKEN.findall(page))), sum(map(float, _DROPPED.findall(page)))


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
