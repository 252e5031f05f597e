"""Who is evicted: the longest unused first, a chain from its end; and the pool is as large as the engine says."""

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, Between, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill, fill, kept_share
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["EVICTION_ORDER"]

_CHAIN_SHARE = 0.3
_KEPT_OF_CHAIN = 0.5
_PROMISED = 0.7
_RECENT = 2


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking = bench.checking()
    capacity = bench.counters().capacity_tokens or 0
    before = bench.counters()
    promised = fill(bench, int(capacity * _PROMISED), checking)
    numbers["pool_share_usable"] = kept_share(bench, promised)
    chain = bench.probe.new_tokens(min(int(bench.settings["most_tokens"]), int(capacity * _CHAIN_SHARE)))
    computed = checking.first_ever(chain, "a long first-ever prompt")
    # The chain is the oldest but for what lay there before it, which goes first.
    fillers = fill(bench, int(capacity - _KEPT_OF_CHAIN * len(chain)), checking)
    numbers["recent_kept_share"] = kept_share(bench, fillers[-_RECENT:])
    again = checking.ask(chain)
    checking.same(again, computed, "a chain that was partly evicted")
    cached = again.cached_tokens
    numbers["chain_kept_share"] = None if cached is None else cached / len(chain)
    after = bench.counters()
    if before.evictions is not None and after.evictions is not None:
        numbers["evicted_blocks"] = after.evictions - before.evictions
    return applied(f"a chain of {len(chain)} tokens was half evicted by unique prompts")


EVICTION_ORDER = drill(
    name="eviction-order",
    title="Who is evicted first",
    expected="The first half of the oldest chain is left, and the newest prompts; the pool is as large as told.",
    act=_act,
    expectations=(
        Expectation(
            "pool_share_usable", "of prompts that fill 0.7 of the pool, what is found again", AtLeast(0.95)
        ),
        Expectation("recent_kept_share", "of the newest prompts, what is found again", AtLeast(0.95)),
        Expectation("chain_kept_share", "of the oldest chain, what is left", Between(0.25, 0.75)),
    ),
    needs=(*TOKENS, "counters", "fillable_pool"),
    parameters=(Parameter("most_tokens", "count", 3500, "longest prompt the engine takes", least=64),),
    story=Story(
        fault="A long prompt, then as many unique ones as push half of it out of the pool.",
        signature="Misses of kind capacity for the end of the chain, hits for its begin.",
        rollback="None is needed.",
        safety="Pushes every cached prefix out of the pool.",
    ),
)
