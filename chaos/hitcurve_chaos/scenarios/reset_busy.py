"""A reset while a request runs: refused, or with preemption done; the running request must not notice."""

from concurrent.futures import ThreadPoolExecutor

from hitcurve_chaos.engine_counters import wait_until
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation, OneOf
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill, post_reset
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["RESET_BUSY"]

_BLOCKS = 4
_BEGIN_S = 5.0


def _act(bench: Bench, numbers: Numbers) -> Injection:
    size, checking, tokens = bench.block_size, bench.checking(), int(bench.settings["output_tokens"])
    cached = bench.probe.new_tokens(_BLOCKS * size + 1)
    checking.first_ever(cached, "before the reset")
    prompt = bench.probe.new_tokens(_BLOCKS * size + 1)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(checking.ask, prompt, max_tokens=tokens)
        began = wait_until(lambda: bool(bench.counters().running) or running.done(), _BEGIN_S, every_s=0.01)
        numbers["running_at_reset"] = 1 if began and not running.done() else 0
        plain, _ = post_reset(bench)
        numbers["plain_reset"] = plain
        meaning, said = post_reset(bench, preempt=True)
        numbers["preempting_reset"] = meaning
        answer = running.result()
    numbers["failed"] = int(not answer.completed)
    numbers["still_cached_tokens"] = checking.probe.ask(cached).cached_tokens
    computed = checking.ask(prompt, max_tokens=tokens, salt=checking.new_salt() if checking.salts else None)
    checking.same(answer, computed, "a request that a reset preempted", of_cache=False)
    return applied(f"a reset was asked for while a request ran ({plain}), then with preemption ({said})")


RESET_BUSY = drill(
    name="reset-busy",
    title="Reset while a request runs",
    expected="A plain reset is refused or done whole; a preempting one is done, and the request answers the same.",
    act=_act,
    expectations=(
        Expectation("failed", "running requests that the reset made fail", AtMost(0)),
        Expectation("preempting_reset", "answer to the preempting reset", OneOf(("applied", "unverified"))),
        Expectation("still_cached_tokens", "tokens still cached after the preempting reset", AtMost(0)),
    ),
    conditions=(Expectation("running_at_reset", "requests that ran when the reset came", AtLeast(1)),),
    needs=(*TOKENS, "reset", "counters"),
    parameters=(
        Parameter("output_tokens", "count", 1200, "length of the answer that runs during the reset", least=2),
    ),
    story=Story(
        fault="The reset endpoint is called during a long answer, once plainly and once with preemption.",
        signature="A plain reset says refused; a preempting one counts a preemption and empties the cache.",
        rollback="None is needed.",
        safety="Running requests are preempted and compute their prompts again: users wait longer, none fails.",
    ),
)
