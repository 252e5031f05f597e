"""A reset of an idle engine takes every cached token with it, on every tier, and leaves the counters alone."""

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import TOKENS, applied, cached_sum, drill, post_reset
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["RESET_IDLE"]

_PROMPTS = 4
_BLOCKS = 4


def _act(bench: Bench, numbers: Numbers) -> Injection:
    size, checking = bench.block_size, bench.checking()
    prompts = [bench.probe.new_tokens(_BLOCKS * size + 1) for _ in range(_PROMPTS)]
    computed = [checking.first_ever(prompt, "before the reset") for prompt in prompts]
    numbers["cached_before"] = cached_sum([checking.ask(prompt) for prompt in prompts])
    before = bench.counters()
    meaning, said = post_reset(bench)
    if meaning not in ("applied", "unverified"):
        return Injection("refused", f"an idle engine refused the reset ({said})")
    after = bench.counters()
    again = [bench.probe.ask(prompt, max_tokens=8, more={"return_token_ids": True}) for prompt in prompts]
    numbers["still_cached_tokens"] = cached_sum(again)
    for answer, first in zip(again, computed, strict=True):
        checking.same(answer, first, "a prompt computed anew after the reset")
    if before.queries is not None and after.queries is not None:
        numbers["counters_fell_by"] = max(0.0, before.queries - after.queries)
    if before.resets is not None and after.resets is not None:
        numbers["resets_counted"] = after.resets - before.resets
    return applied("the prefix cache of the idle engine was reset")


RESET_IDLE = drill(
    name="reset-idle",
    title="Reset of an idle engine",
    expected="No token that was cached before is served after the reset, from no tier; counters do not fall.",
    act=_act,
    expectations=(
        Expectation("still_cached_tokens", "tokens still served from a cache after the reset", AtMost(0)),
        Expectation(
            "counters_fell_by", "query tokens that the counters lost by the reset", AtMost(0), optional=True
        ),
    ),
    conditions=(Expectation("cached_before", "tokens that were cached before", AtLeast(1)),),
    needs=(*TOKENS, "reset"),
    story=Story(
        fault="Prompts are cached, then the reset endpoint is called while nothing runs.",
        signature="Every prompt is computed anew; a tier behind the GPU that still serves it shows here.",
        rollback="None is needed: traffic fills the cache again.",
        safety="Everybody's prefixes are gone from the cache of this engine.",
    ),
)
