"""What only a container can suffer: little memory, and no network."""

from collections.abc import Mapping
from typing import Any

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection, Undo
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import applied, drill, failures
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["CONTAINER_CUT_OFF", "CONTAINER_STARVED"]

_REQUESTS = 4
_PATIENCE_S = 3.0
_BACK_S = 30.0


def _starve(bench: Bench, numbers: Numbers) -> Injection:
    limits = bench.driver().limit_memory(float(bench.settings["memory_share"]))
    numbers.update(limits)
    answers = [bench.probe.ask(bench.probe.new_prompt(16)) for _ in range(_REQUESTS)]
    numbers["failed"] = failures(answers)
    return applied(f"the container had {limits['limit_bytes'] / 2**20:.0f} MiB left of memory")


def _cut_off(bench: Bench, numbers: Numbers) -> Injection:
    driver = bench.driver()
    driver.cut_network()
    bench.watch.for_seconds(bench.settings["cut"])
    numbers["answered_while_cut"] = int(
        bench.probe.ask(bench.probe.new_prompt(8), timeout_s=_PATIENCE_S).completed
    )
    driver.join_network()
    joined_s = bench.clock.now()
    while not bench.probe.ask(bench.probe.new_prompt(8), timeout_s=_PATIENCE_S).completed:
        if bench.clock.now() - joined_s > _BACK_S:
            break
        bench.clock.sleep(0.2)
    else:
        numbers["answers_after_s"] = bench.clock.now() - joined_s
    return applied("the container was cut off its networks and connected again")


def _restore_memory(bench: Bench, record: Mapping[str, Any]) -> Undo:
    bench.driver().restore_memory()
    bench.driver().start()
    return Undo(True, "the container has its memory back")


def _join(bench: Bench, record: Mapping[str, Any]) -> Undo:
    bench.driver().join_network()
    return Undo(True, "the container is on its networks")


CONTAINER_STARVED = drill(
    name="container-starved",
    title="Memory limit of the container",
    expected="With little memory left the engine answers what it is asked.",
    act=_starve,
    expectations=(Expectation("failed", "requests that failed", AtMost(0)),),
    conditions=(Expectation("limit_bytes", "bytes the container was left", AtLeast(1)),),
    needs=("memory_limit",),
    parameters=(
        Parameter("memory_share", "number", 1.25, "limit as a share of what it uses now", least=0.05, most=100),
    ),
    left=lambda bench: bench.driver().record("memory_limit"),
    put_back=_restore_memory,
    story=Story(
        fault="docker update gives the container a memory limit just above (or below) what it uses.",
        signature="None on the curve as long as it lives; a restart where it is killed for memory.",
        rollback="The old limits are set again, and the container is started where it died.",
        safety="Below 1 the kernel may kill the engine: choose the share with care.",
    ),
)
CONTAINER_CUT_OFF = drill(
    name="container-cut-off",
    title="Network of the container cut",
    expected="Nothing answers while it is cut off; connected again it answers within the bound.",
    act=_cut_off,
    expectations=(
        Expectation(
            "answers_after_s", "seconds from the reconnection until a request was completed", AtMost(_BACK_S)
        ),
    ),
    conditions=(Expectation("answered_while_cut", "requests answered while it was cut off", AtMost(0)),),
    needs=("cut_network",),
    parameters=(Parameter("cut", "duration", 2.0, "how long it is cut off", least=0.2),),
    left=lambda bench: bench.driver().record("cut_network"),
    put_back=_join,
    story=Story(
        fault="The container is disconnected from all of its Docker networks.",
        signature="Scrapes fail; afterwards the old state without a restart.",
        rollback="It is connected to the same networks with the same aliases.",
        safety="Users cannot reach it meanwhile; a published port works again once it is connected.",
    ),
)
