"""More running requests than the pool can hold: some are preempted, all answer rightly, none is counted twice."""

from functools import partial
from math import ceil

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.probe import MOST_AT_ONCE
from hitcurve_chaos.scenarios.drills import TOKENS, add_failures, applied, cached_sum, drill
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["PREEMPTION_STORM"]

# Above 1, so that some wait for their first block while others run.
_PROMPTS_SHARE = 1.1
_OUTPUTS_SHARE = 0.4
_COMPARED = 2
_TRIES = 3


def _act(bench: Bench, numbers: Numbers) -> Injection:
    longest = int(bench.settings["most_tokens"])
    capacity = bench.counters().capacity_tokens or 0
    count = max(int(bench.settings["requests"]), ceil((_PROMPTS_SHARE + _OUTPUTS_SHARE) * capacity / longest))
    numbers["failed"] = 0
    for attempt in range(1, _TRIES + 1):
        _storm(bench, numbers, capacity / count, min(count * 2 ** (attempt - 1), MOST_AT_ONCE))
        numbers["attempts"] = attempt
        if numbers.get("preemptions") != 0:
            break
    return applied(f"{numbers['requests']} requests together needed more than the pool holds")


def _storm(bench: Bench, numbers: Numbers, share_tokens: float, count: int) -> None:
    """``count`` requests at once, of a prompt and an answer in proportion to ``share_tokens`` each.

    Where a server hands them to its engine one by one, the first may be done before the last comes: of more
    requests, more meet.
    """
    checking = bench.checking()
    prompt_tokens, output_tokens = (int(share_tokens * share) for share in (_PROMPTS_SHARE, _OUTPUTS_SHARE))
    prompts = [bench.probe.new_tokens(prompt_tokens) for _ in range(count)]
    before = bench.counters()
    answers = bench.probe.ask_all(
        [partial(checking.ask, prompt, max_tokens=output_tokens) for prompt in prompts], at_once=count
    )
    after = bench.counters()
    numbers["requests"] = count
    add_failures(numbers, answers)
    if before.preemptions is not None and after.preemptions is not None:
        numbers["preemptions"] = after.preemptions - before.preemptions
    cached = cached_sum(answers)
    if before.hits is not None and after.hits is not None and cached is not None:
        _at_least(numbers, "hits_beyond_usage", after.hits - before.hits - cached)
    if before.queries is not None and after.queries is not None:
        _at_least(numbers, "queries_beyond_prompts", after.queries - before.queries - count * prompt_tokens)
    for prompt, answer in list(zip(prompts, answers, strict=True))[-_COMPARED:]:
        salt = checking.new_salt() if checking.salts else None
        computed = checking.ask(prompt, max_tokens=output_tokens, salt=salt)
        checking.same(answer, computed, "a request under preemption", of_cache=False)


def _at_least(numbers: Numbers, name: str, found: float) -> None:
    """The most of all attempts, and never less than 0."""
    numbers[name] = max(0.0, found, float(numbers.get(name) or 0))


PREEMPTION_STORM = drill(
    name="preemption-storm",
    title="Running requests outgrow the pool",
    expected="Requests are preempted and still answered, as they would be alone; counters count them once.",
    act=_act,
    expectations=(
        Expectation("failed", "requests that failed", AtMost(0)),
        Expectation("hits_beyond_usage", "hit tokens counted beyond what answers tell", AtMost(0), optional=True),
        Expectation("queries_beyond_prompts", "query tokens counted beyond the prompts", AtMost(0), optional=True),
    ),
    conditions=(Expectation("preemptions", "requests that were preempted", AtLeast(1)),),
    needs=(*TOKENS, "counters", "fillable_pool"),
    parameters=(
        Parameter("requests", "count", 12, "how many at once, at least", least=2, most=64),
        Parameter("most_tokens", "count", 3500, "longest prompt and answer the engine takes", least=64),
    ),
    story=Story(
        fault="Prompts that nearly fill the pool run together, and their answers outgrow it.",
        signature="Preemptions rise, requests wait; degraded or stalled, cause pool_pressure.",
        rollback="None is needed: the requests end.",
        safety="Users' requests are preempted as well and take longer; none fails for it.",
    ),
)
