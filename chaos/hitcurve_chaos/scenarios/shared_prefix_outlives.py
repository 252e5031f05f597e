"""Two requests hold one prefix; one ends and the pool fills up. The other must still read what it read before."""

from concurrent.futures import ThreadPoolExecutor

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import TOKENS, add_failures, applied, drill, fill
from hitcurve_chaos.scenarios.kept_busy import kept_busy
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["SHARED_PREFIX_OUTLIVES"]

_BLOCKS = 6
_TRIES = 3
_BESIDE = 4
_AHEAD_S = 0.05
_SHORT_TOKENS = 48
"""Long enough to overlap, whichever of the two comes first."""


def _act(bench: Bench, numbers: Numbers) -> Injection:
    numbers["failed"] = 0
    for attempt in range(1, _TRIES + 1):
        _share(bench, numbers)
        numbers["attempts"] = attempt
        if numbers["outlasted"]:
            break
    return applied("one of two requests that held the same blocks ended, and the pool was filled behind it")


def _share(bench: Bench, numbers: Numbers) -> None:
    checking = bench.checking()
    capacity = bench.counters().capacity_tokens or 0
    shared = bench.probe.new_tokens(_BLOCKS * bench.block_size)
    long, short = (shared + bench.probe.new_tokens(bench.block_size // 2) for _ in range(2))
    output_tokens = int(bench.settings["output_tokens"])
    checking.ask(shared + bench.probe.new_tokens(2))
    beside = len(long) + len(short) + output_tokens
    with ThreadPoolExecutor(1) as pool, kept_busy(bench, _BESIDE, beside_tokens=beside) as others:
        running = pool.submit(checking.ask, long, max_tokens=output_tokens)
        bench.clock.sleep(_AHEAD_S)
        other = checking.ask(short, max_tokens=_SHORT_TOKENS)
        fill(bench, capacity, checking)
        numbers["outlasted"] = int(not running.done())
    answer = running.result()
    add_failures(numbers, [other, answer, *others.answers])
    numbers["sharers"] = sum(bool(one.cached_tokens) for one in (other, answer))
    computed = checking.ask(long, max_tokens=output_tokens, salt=checking.new_salt() if checking.salts else None)
    checking.same(answer, computed, "a request whose prefix another one had shared")


SHARED_PREFIX_OUTLIVES = drill(
    name="shared-prefix-outlives",
    title="A shared prefix outlives one of its holders",
    expected="The request that still runs keeps its blocks, and answers as it would alone.",
    act=_act,
    expectations=(Expectation("failed", "requests that failed", AtMost(0)),),
    conditions=(
        Expectation("sharers", "requests that found the shared prefix", AtLeast(2)),
        Expectation("outlasted", "whether the long request ran until the pool was full", AtLeast(1)),
    ),
    needs=(*TOKENS, "counters", "fillable_pool"),
    parameters=(Parameter("output_tokens", "count", 1200, "how long the request that stays answers", least=16),),
    story=Story(
        fault="A long request and a short one share a prefix while others are computed beside them; the short one "
        "ends; unique prompts fill the pool.",
        signature="Misses of kind capacity for everybody but the request that runs.",
        rollback="None is needed: the requests end.",
        safety="Pushes idle cached prefixes out of the pool.",
    ),
)
