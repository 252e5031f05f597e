"""A replica behind a router is lost and comes back: the others take over, and it is cold when it is back."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from hitcurve_chaos.drivers.driver import DriverFailed
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection, Undo
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill
from hitcurve_chaos.scenarios.router import Router
from hitcurve_chaos.scenarios.scenario import Bench, Story
from hitcurve_chaos.targets import Target

__all__ = ["REPLICA_LOSS"]

_BLOCKS = 4
_REQUESTS = 8


def _act(bench: Bench, numbers: Numbers) -> Injection:
    lost = _victim(bench)
    router = Router(bench.probe, [bench.target, *bench.target.replicas])
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    ask_lost = partial(bench.probe.ask, prompt, engine=lost.engine)
    ask_kept = partial(bench.probe.ask, prompt, engine=bench.target.engine)
    for ask in (ask_lost, ask_kept):
        ask()
    numbers["cached_before"] = ask_lost().cached_tokens
    bench.driver(lost).kill()
    answers = [router.ask(prompt) for _ in range(_REQUESTS)]
    numbers["unanswered"] = sum(not answer.completed for answer in answers)
    numbers["failed_over"] = router.failed_over
    bench.driver(lost).start()
    back = ask_lost()
    numbers["answers_again"] = int(back.completed)
    numbers["survived_tokens"] = back.cached_tokens
    numbers["kept_by_others"] = ask_kept().cached_tokens
    return applied("a replica was killed, taken over for, and started again")


def _victim(bench: Bench) -> Target:
    for replica in bench.target.replicas:
        driver = bench.drivers.of(replica)
        if driver is not None and {"kill", "start"} <= driver.can:
            return replica
    raise DriverFailed("no other replica may be killed and started again")


def _left(bench: Bench) -> Mapping[str, Any]:
    return bench.driver(_victim(bench)).record("kill")


def _put_back(bench: Bench, record: Mapping[str, Any]) -> Undo:
    lost = _victim(bench)
    if not bench.probe.ask(bench.probe.new_prompt(4), engine=lost.engine).completed:
        bench.driver(lost).start()
    return Undo(True, "the replica is up")


REPLICA_LOSS = drill(
    name="replica-loss",
    title="A replica is lost and comes back",
    expected="Every request is answered by another replica; the lost one comes back cold, the others are warm.",
    act=_act,
    expectations=(
        Expectation("unanswered", "requests that no replica answered", AtMost(0)),
        Expectation("answers_again", "whether the lost replica answers again", AtLeast(1)),
        Expectation("survived_tokens", "tokens that the lost replica still had cached", AtMost(0)),
        Expectation("kept_by_others", "tokens that another replica still has cached", AtLeast(1)),
    ),
    conditions=(
        Expectation("cached_before", "tokens that the lost replica had cached", AtLeast(1)),
        Expectation("failed_over", "requests that went to another replica", AtLeast(1)),
    ),
    needs=(*TOKENS, "replicas", "replica_kill"),
    left=_left,
    put_back=_put_back,
    story=Story(
        fault="A replica is killed under round-robin routing with failover, and started again.",
        signature="The fleet's hit rate dips by what the lost replica had; its own curve is cold (restart).",
        rollback="The replica is started again where it is not up.",
        safety="The others carry its traffic; requests in flight on it fail.",
    ),
)
