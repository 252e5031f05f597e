"""The engine is paused and goes on: nobody gets a wrong or a failed answer, and the cache is still there."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection, Undo
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill, failures
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["PAUSE"]

_BLOCKS = 4
_ASKED_MEANWHILE = 3


def _act(bench: Bench, numbers: Numbers) -> Injection:
    driver, checking = bench.driver(), bench.checking()
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    computed = checking.first_ever(prompt, "before the pause")
    before = bench.counters()
    with ThreadPoolExecutor(_ASKED_MEANWHILE) as pool:
        driver.pause()
        try:
            waiting = [pool.submit(partial(checking.ask, prompt)) for _ in range(_ASKED_MEANWHILE)]
            bench.watch.for_seconds(bench.settings["paused"])
            numbers["answered_while_paused"] = sum(one.done() for one in waiting)
        finally:
            # Before the pool is left: leaving it waits for answers, which a paused engine never gives.
            driver.resume()
        answers = [one.result() for one in waiting]
    numbers["failed"] = failures(answers)
    for answer in answers:
        checking.same(answer, computed, "a request that waited through the pause")
    numbers["cached_after"] = checking.ask(prompt).cached_tokens
    after = bench.counters()
    if before.queries is not None and after.queries is not None:
        numbers["counters_fell_by"] = max(0.0, before.queries - after.queries)
    return applied(f"the engine was paused for {bench.settings['paused']:g} s and went on")


def _left(bench: Bench) -> Mapping[str, Any]:
    return bench.driver().record("pause")


def _put_back(bench: Bench, record: Mapping[str, Any]) -> Undo:
    bench.driver().resume()
    return Undo(True, "the engine goes on")


PAUSE = drill(
    name="pause",
    title="Pause of the engine",
    expected="Requests wait and are answered rightly when it goes on; the cache and the counters are still there.",
    act=_act,
    expectations=(
        Expectation("failed", "requests that failed for the pause", AtMost(0)),
        Expectation("cached_after", "tokens that are still cached after the pause", AtLeast(1)),
        Expectation("counters_fell_by", "query tokens that the counters lost", AtMost(0), optional=True),
    ),
    conditions=(Expectation("answered_while_paused", "requests answered while it was paused", AtMost(0)),),
    needs=(*TOKENS, "pause"),
    parameters=(Parameter("paused", "duration", 2.0, "how long it is paused", least=0.2),),
    left=_left,
    put_back=_put_back,
    story=Story(
        fault="SIGSTOP to the engine's processes, or docker pause: sockets stay open, nothing answers.",
        signature="Scrapes time out and the curve has a gap; afterwards stalled at most, and no restart.",
        rollback="SIGCONT, or docker unpause; by chaos recover too, to the same process only.",
        safety="Users wait as long as the pause; short timeouts fail, and a liveness probe may kill it.",
    ),
)
