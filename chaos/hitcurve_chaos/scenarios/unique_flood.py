"""Traffic without any reuse: 0 % hits, every request answered, and the lookup costs next to nothing."""

from functools import partial

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import TOKENS, applied, cached_sum, drill, failures, p50_s
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["UNIQUE_FLOOD"]

_BLOCKS = 4
_SMALL_BLOCKS = 2


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking, count = bench.checking(), int(bench.settings["requests"])
    prompts = [bench.probe.new_tokens(_BLOCKS * bench.block_size + 1) for _ in range(count)]
    asks = [partial(checking.first_ever, prompt, "a unique prompt") for prompt in prompts]
    answers = bench.probe.ask_all(asks, at_once=4)
    numbers["failed"] = failures(answers)
    numbers["hit_tokens"] = cached_sum(answers)
    numbers["request_p50_s"] = p50_s(answers)
    numbers["lookup_extra_s"] = _lookup_extra_s(bench, int(bench.settings["pairs"]))
    return applied(f"{count} prompts that share nothing were sent")


def _lookup_extra_s(bench: Bench, pairs: int) -> float | None:
    """How much longer a request takes that looks the cache up (and hits) than one that may not read it.

    The fastest of each, sent in turns: what a busy machine adds is never negative, and misses some of them.
    """
    prompt = bench.probe.new_tokens(_SMALL_BLOCKS * bench.block_size + 1)
    bench.probe.ask(prompt)
    reads, skips = [], []
    for _ in range(pairs):
        reads.append(bench.probe.ask(prompt).duration_s)
        skips.append(bench.probe.ask(prompt, more={"prompt_logprobs": 0}).duration_s)
    fastest = [min((d for d in durations if d is not None), default=None) for durations in (reads, skips)]
    return None if fastest[0] is None or fastest[1] is None else fastest[0] - fastest[1]


UNIQUE_FLOOD = drill(
    name="unique-flood",
    title="Traffic without reuse",
    expected="No hit, no failure, and a request that looks the cache up takes no longer than one that may not.",
    act=_act,
    expectations=(
        Expectation("hit_tokens", "tokens that unique prompts found cached", AtMost(0)),
        Expectation("failed", "requests that failed", AtMost(0)),
        Expectation("lookup_extra_s", "seconds that looking the cache up adds (fastest of each)", AtMost(0.01)),
    ),
    needs=(*TOKENS, "prompt_logprobs"),
    parameters=(
        Parameter("requests", "count", 16, "how many unique prompts", least=1, most=100_000),
        Parameter("pairs", "count", 20, "pairs of requests that tell what a lookup costs", least=3, most=1000),
    ),
    story=Story(
        fault="Prompts that share nothing with anybody are sent; then pairs with and without a lookup.",
        signature="Rate 0, state low, cause unknown or traffic_shift; all misses compulsory.",
        rollback="None is needed: the prompts age out.",
        safety="Pushes cached prefixes out where it fills the pool.",
    ),
)
