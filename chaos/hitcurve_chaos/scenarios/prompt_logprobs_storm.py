"""Requests for prompt logprobs may not read the cache: they must not disturb those that do."""

from functools import partial

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import TOKENS, applied, cached_sum, drill, failures
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["PROMPT_LOGPROBS_STORM"]

_BLOCKS = 4


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking, count = bench.checking(), int(bench.settings["requests"])
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    computed = checking.first_ever(prompt, "a first-ever prompt")
    before = bench.counters()
    storm = bench.probe.ask_all(
        [partial(bench.probe.ask, prompt, more={"prompt_logprobs": 0}) for _ in range(count)], at_once=4
    )
    after = bench.counters()
    numbers["failed"] = failures(storm)
    numbers["read_tokens"] = sum(answer.cached_tokens or 0 for answer in storm)
    if before.hits is not None and after.hits is not None:
        numbers["hits_counted"] = after.hits - before.hits
    last = checking.ask(prompt)
    checking.same(last, computed, "a prompt after the storm")
    numbers["cached_after"] = cached_sum([last])
    return applied(f"{count} requests for prompt logprobs of a cached prompt were sent")


PROMPT_LOGPROBS_STORM = drill(
    name="prompt-logprobs-storm",
    title="Requests for prompt logprobs",
    expected="They read nothing from the cache and count no hits; a usual request still finds the prompt.",
    act=_act,
    expectations=(
        Expectation("failed", "requests that failed", AtMost(0)),
        Expectation("read_tokens", "cached tokens of requests that may not read the cache", AtMost(0)),
        Expectation("hits_counted", "hit tokens that the engine counted for them", AtMost(0), optional=True),
        Expectation("cached_after", "tokens a usual request finds afterwards", AtLeast(1)),
    ),
    needs=(*TOKENS, "prompt_logprobs"),
    parameters=(Parameter("requests", "count", 12, "how many", least=1, most=1000),),
    story=Story(
        fault="A cached prompt is asked for with prompt_logprobs many times over.",
        signature="Query and hit counters stand still or only queries move; TTFT is that of a cold cache.",
        rollback="None is needed.",
        safety="Every one of them computes its whole prompt.",
    ),
)
