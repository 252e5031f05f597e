"""Prompts around a block's size: exactly the full blocks are served, never the last token."""

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill, rule_tokens
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["SHORT_PREFIXES"]


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking, size = bench.checking(), bench.block_size
    lengths = (2, size - 1, size, size + 1, 2 * size - 1, 2 * size, 2 * size + 1, 4 * size)
    beyond = below = tried = 0
    for length in lengths:
        answer = checking.compare(bench.probe.new_tokens(max(2, length)), f"a prompt of {length} tokens")
        if answer.cached_tokens is None:
            return Injection("unverified", f"a prompt of {length} tokens was not answered ({answer.reason})")
        rule = rule_tokens(max(2, length), size)
        beyond += max(0, answer.cached_tokens - rule)
        below += max(0, rule - answer.cached_tokens)
        tried += 1
    numbers["lengths"] = tried
    numbers["tokens_beyond_rule"], numbers["tokens_below_rule"] = beyond, below
    return applied(f"prompts of {lengths[0]} to {lengths[-1]} tokens were sent twice (blocks of {size})")


SHORT_PREFIXES = drill(
    name="short-prefixes",
    title="Prompts around a block's size",
    expected="A cached prompt is served its full blocks but the one with its last token; no more, no less.",
    act=_act,
    expectations=(
        Expectation("tokens_beyond_rule", "cached tokens beyond full blocks before the last token", AtMost(0)),
        Expectation("tokens_below_rule", "cached tokens missing from that", AtMost(0)),
    ),
    conditions=(Expectation("lengths", "lengths that were tried", AtLeast(8)),),
    needs=(*TOKENS, "pool_size"),
    story=Story(
        fault="Prompts of 2 tokens to four blocks are sent twice and under a new salt.",
        signature="Misses of kind tail only; cause short_prefix where such prompts are the traffic.",
        rollback="None is needed.",
        safety="Two dozen short requests.",
    ),
)
