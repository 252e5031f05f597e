"""A reset while requests run: refused, or with preemption done; the running requests must not notice.

That a request held blocks when the reset came is not taken from one gauge: a server may answer and show its gauges
long after the engine behind it is idle, and not yet when it is busy. The engine itself must have refused the reset
or preempted for it.
"""

from concurrent.futures import Future, ThreadPoolExecutor

from hitcurve_chaos.engine_counters import EngineCounters
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation, OneOf
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.probe import ProbeAnswer
from hitcurve_chaos.scenarios.drills import TOKENS, add_failures, applied, drill, post_reset
from hitcurve_chaos.scenarios.kept_busy import kept_busy
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["RESET_BUSY", "held_blocks"]

_BLOCKS = 4
_BEGIN_S = 20.0
_TRIES = 5
_PAUSE_S = 0.01


def held_blocks(
    plain_reset: str, before: EngineCounters, after: EngineCounters, *, unanswered_after_reset: bool
) -> bool:
    """Whether a request held blocks when the resets came, by what the engine itself did.

    It refused the plain reset, or preempted for the other one. Where it counts no preemptions, what it said of
    running requests before and that one was unanswered after both resets must do.
    """
    if plain_reset == "refused":
        return True
    if before.preemptions is not None and after.preemptions is not None:
        return after.preemptions > before.preemptions
    return bool(before.running) and unanswered_after_reset


def _act(bench: Bench, numbers: Numbers) -> Injection:
    numbers["failed"] = 0
    for attempt in range(1, _TRIES + 1):
        said = _reset_under_load(bench, numbers)
        numbers["attempts"] = attempt
        if numbers["held_at_reset"]:
            break
    return applied(said)


def _reset_under_load(bench: Bench, numbers: Numbers) -> str:
    size, checking, tokens = bench.block_size, bench.checking(), int(bench.settings["output_tokens"])
    cached, prompt = (bench.probe.new_tokens(_BLOCKS * size + 1) for _ in range(2))
    checking.first_ever(cached, "before the reset")
    at_once = int(bench.settings["at_once"])
    with ThreadPoolExecutor(1) as pool, kept_busy(bench, at_once, beside_tokens=len(prompt) + tokens) as others:
        running = pool.submit(checking.ask, prompt, max_tokens=tokens)
        plain, before = _plain_reset(bench, running)
        others.send_no_more()
        # What was cached before is evicted or reset by now; asked for again, it is the last to go.
        checking.ask(cached)
        meaning, said = post_reset(bench, preempt=True)
        numbers["still_cached_tokens"] = checking.probe.ask(cached).cached_tokens
        unanswered = not running.done()
    answer = running.result()
    held = held_blocks(plain, before, bench.counters(), unanswered_after_reset=unanswered)
    numbers |= {
        "running_at_reset": before.running,
        "held_at_reset": int(held),
        "plain_reset": plain,
        "preempting_reset": meaning,
    }
    add_failures(numbers, [answer, *others.answers])
    computed = checking.ask(prompt, max_tokens=tokens, salt=checking.new_salt() if checking.salts else None)
    checking.same(answer, computed, "a request that a reset preempted", of_cache=False)
    return f"a reset was asked for while requests ran ({plain}), then with preemption ({said})"


def _plain_reset(bench: Bench, running: Future[ProbeAnswer]) -> tuple[str, EngineCounters]:
    """The answer to a reset that met a running request, and the reading just before it.

    Asked again while neither the answer nor the reading shows one: on a busy machine a request reaches its engine
    late, and may be done there before any page tells of it.
    """
    deadline_s = bench.clock.now() + _BEGIN_S
    while True:
        before = bench.counters()
        meaning, _ = post_reset(bench)
        done = running.done() or bench.clock.now() > deadline_s
        if before.running or done or meaning not in ("applied", "unverified"):
            return meaning, before
        bench.clock.sleep(_PAUSE_S)


RESET_BUSY = drill(
    name="reset-busy",
    title="Reset while requests run",
    expected="A plain reset is refused or done whole; a preempting one is done, and requests answer the same.",
    act=_act,
    expectations=(
        Expectation("failed", "running requests that the reset made fail", AtMost(0)),
        Expectation("preempting_reset", "answer to the preempting reset", OneOf(("applied", "unverified"))),
        Expectation("still_cached_tokens", "tokens still cached after the preempting reset", AtMost(0)),
    ),
    conditions=(
        Expectation(
            "held_at_reset", "whether it refused or preempted, so that a request did hold blocks", AtLeast(1)
        ),
    ),
    needs=(*TOKENS, "reset", "counters"),
    parameters=(
        Parameter("output_tokens", "count", 1200, "length of the answer that runs during the reset", least=2),
        Parameter("at_once", "count", 4, "long prompts that are computed beside it at any time", least=1, most=64),
    ),
    story=Story(
        fault="A long answer runs, and long prompts are computed beside it. The reset endpoint is called plainly, "
        "then with preemption.",
        signature="A plain reset says refused; a preempting one counts a preemption and empties the cache.",
        rollback="None is needed.",
        safety="Running requests are preempted and compute their prompts again: users wait longer, none fails.",
    ),
)
