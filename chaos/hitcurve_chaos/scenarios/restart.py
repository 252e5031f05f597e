"""The engine ends (asked to, killed, or only its core) and comes back: it answers, is cold, and that is seen."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hitcurve_chaos.drivers.driver import Action, Driver, DriverFailed
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection, Undo
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import TOKENS, applied, cached_sum, drill
from hitcurve_chaos.scenarios.scenario import Bench, Scenario, Story

__all__ = ["CORE_KILL", "RESTART_KILL", "RESTART_TERM"]

_PROMPTS = 3
_BLOCKS = 4
_NOTICED_S = 10.0
_HANG_S = 15.0


def _act(end: Callable[[Driver], None], bench: Bench, numbers: Numbers) -> Injection:
    driver, size = bench.driver(), bench.block_size
    prompts = [bench.probe.new_tokens(_BLOCKS * size + 1) for _ in range(_PROMPTS)]
    for prompt in prompts:
        bench.probe.ask(prompt)
    numbers["cached_before"] = cached_sum([bench.probe.ask(prompt) for prompt in prompts])
    bench.watch.for_seconds(1.5)
    before = bench.watch.curve.last
    end(driver)
    down_s = bench.clock.now()
    # A server whose core is gone must say so: a request that hangs is worse than one that fails.
    numbers["answered_while_down"] = int(bench.probe.ask(bench.probe.new_prompt(8), timeout_s=_HANG_S).completed)
    numbers["silence_s"] = bench.clock.now() - down_s
    driver.start()
    numbers["answers_after_s"] = _answers_after(bench, down_s)
    numbers["survived_tokens"] = cached_sum([bench.probe.ask(prompt) for prompt in prompts])
    restarts = before.restarts if before else 0
    bench.watch.until(
        lambda: (last := bench.watch.curve.last) is not None and last.restarts > restarts, _NOTICED_S
    )
    last = bench.watch.curve.last
    numbers["restarts_noticed"] = last.restarts - restarts if last else None
    return applied("the engine ended and was started again")


def _answers_after(bench: Bench, since_s: float) -> float | None:
    within_s = bench.settings["recover_within"]
    while bench.clock.now() - since_s < within_s:
        if bench.probe.ask(bench.probe.new_prompt(8), timeout_s=_HANG_S).completed:
            return bench.clock.now() - since_s
        bench.clock.sleep(0.2)
    return None


def _left(action: Action, bench: Bench) -> Mapping[str, Any]:
    return bench.driver().record(action)


def _put_back(bench: Bench, record: Mapping[str, Any]) -> Undo:
    if bench.probe.ask(bench.probe.new_prompt(8), timeout_s=_HANG_S).completed:
        return Undo(True, "the engine is up")
    try:
        bench.driver().start()
    except DriverFailed as error:
        return Undo(False, str(error))
    return Undo(True, "the engine was started again")


def _restart(name: str, title: str, how: str, end: Callable[[Driver], None], action: Action) -> Scenario:
    return drill(
        name=name,
        title=title,
        expected="The engine answers again within the bound, nothing cached survives, and the restart is noticed.",
        act=partial(_act, end),
        expectations=(
            Expectation("answers_after_s", "seconds from its end until it completed a request", AtLeast(0)),
            Expectation("survived_tokens", "tokens that were still cached after the restart", AtMost(0)),
            Expectation("restarts_noticed", "restarts that the readings show", AtLeast(1)),
            Expectation("silence_s", "seconds a request hung while the engine was down", AtMost(_HANG_S - 1)),
        ),
        conditions=(Expectation("cached_before", "tokens that were cached before", AtLeast(1)),),
        needs=(*TOKENS, action, "start", "counters"),
        left=partial(_left, action),
        put_back=_put_back,
        story=Story(
            fault=how,
            signature="Scrapes fail, then the counters begin anew: a cut (restart), state cold, cause restart.",
            rollback="The engine is started again at the same address where it is not up.",
            safety="Requests fail while it is down; adapters that were loaded at run time are gone.",
        ),
    )


RESTART_TERM = _restart(
    "restart-term",
    "Restart by SIGTERM",
    "The API server (the container) is asked to end by SIGTERM and started again.",
    lambda driver: driver.stop(),
    "stop",
)
RESTART_KILL = _restart(
    "restart-kill",
    "Restart after SIGKILL of the API server",
    "The API server (the container) is killed by SIGKILL and started again.",
    lambda driver: driver.kill(),
    "kill",
)
CORE_KILL = _restart(
    "core-kill",
    "Restart after SIGKILL of the engine core",
    "The process that schedules and computes is killed behind the server; then all of it is started again.",
    lambda driver: driver.kill_core(),
    "kill_core",
)
