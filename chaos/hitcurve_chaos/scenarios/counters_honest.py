"""The engine's counters against what its own answers say, request by request."""

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import TOKENS, applied, cached_sum, drill, failures
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["COUNTERS_HONEST"]

_PROMPTS = 4
_ASKED = 3


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking, size = bench.checking(), bench.block_size
    before = bench.counters()
    answers = []
    for number in range(_PROMPTS):
        prompt = bench.probe.new_tokens((number + 1) * size + number + 1)
        first = checking.first_ever(prompt, "a first-ever prompt")
        rest = [checking.ask(prompt) for _ in range(_ASKED - 1)]
        for answer in rest:
            checking.same(answer, first, "a cached prompt")
        answers += [first, *rest]
    after = bench.counters()
    numbers["failed"] = failures(answers)
    prompts, cached = sum(answer.prompt_tokens or 0 for answer in answers), cached_sum(answers)
    numbers["prompt_tokens"], numbers["cached_tokens"] = prompts, cached
    if before.queries is not None and after.queries is not None:
        numbers["queries_off"] = abs(after.queries - before.queries - prompts)
    if before.hits is not None and after.hits is not None and cached is not None:
        numbers["hits_off"] = abs(after.hits - before.hits - cached)
    others = [bench.counters(replica).queries for replica in bench.target.replicas]
    numbers["other_replicas_read"] = len([value for value in others if value is not None])
    return applied(f"{len(answers)} requests were counted by the engine and by their own usage")


COUNTERS_HONEST = drill(
    name="counters-honest",
    title="Counters against the answers' own usage",
    expected="Query tokens rise by the prompts, hit tokens by the cached tokens of the answers; by nothing else.",
    act=_act,
    expectations=(
        Expectation("queries_off", "query tokens beside what the prompts had", AtMost(0)),
        Expectation("hits_off", "hit tokens beside what the answers tell", AtMost(0)),
        Expectation("failed", "requests that failed", AtMost(0)),
    ),
    conditions=(Expectation("cached_tokens", "tokens that were cached", AtLeast(1)),),
    needs=(*TOKENS, "counters"),
    story=Story(
        fault="None: a dozen requests of known size, alone on the engine.",
        signature="The rate-based hit rate of the interval is the ratio that the answers' usage gives.",
        rollback="None is needed.",
        safety="A dozen short requests.",
    ),
)
