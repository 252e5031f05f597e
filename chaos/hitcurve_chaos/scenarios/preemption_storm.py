"""More running requests than the pool can hold: some are preempted, all answer rightly, none is counted twice."""

from functools import partial
from math import ceil

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import TOKENS, applied, cached_sum, drill, failures
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["PREEMPTION_STORM"]

# Above 1, so that some wait for their first block while others run.
_PROMPTS_SHARE = 1.1
_OUTPUTS_SHARE = 0.4
_COMPARED = 2


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking, longest = bench.checking(), int(bench.settings["most_tokens"])
    capacity = bench.counters().capacity_tokens or 0
    count = max(int(bench.settings["requests"]), ceil((_PROMPTS_SHARE + _OUTPUTS_SHARE) * capacity / longest))
    prompt_tokens, output_tokens = (int(capacity * share / count) for share in (_PROMPTS_SHARE, _OUTPUTS_SHARE))
    prompts = [bench.probe.new_tokens(prompt_tokens) for _ in range(count)]
    before = bench.counters()
    answers = bench.probe.ask_all(
        [partial(checking.ask, prompt, max_tokens=output_tokens) for prompt in prompts], at_once=count
    )
    after = bench.counters()
    numbers["requests"], numbers["failed"] = count, failures(answers)
    if before.preemptions is not None and after.preemptions is not None:
        numbers["preemptions"] = after.preemptions - before.preemptions
    cached = cached_sum(answers)
    if before.hits is not None and after.hits is not None and cached is not None:
        numbers["hits_beyond_usage"] = max(0.0, after.hits - before.hits - cached)
    if before.queries is not None and after.queries is not None:
        numbers["queries_beyond_prompts"] = max(0.0, after.queries - before.queries - count * prompt_tokens)
    for prompt, answer in list(zip(prompts, answers, strict=True))[-_COMPARED:]:
        salt = checking.new_salt() if checking.salts else None
        computed = checking.ask(prompt, max_tokens=output_tokens, salt=salt)
        checking.same(answer, computed, "a request under preemption", of_cache=False)
    return applied(f"{count} requests together needed more than the pool holds")


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
