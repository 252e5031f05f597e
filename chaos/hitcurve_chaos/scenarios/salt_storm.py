"""Many salts on one prompt: each salt is a cold cache of its own, and finds itself again."""

from functools import partial

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import TOKENS, applied, cached_sum, drill, failures, rule_tokens
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["SALT_STORM"]

_BLOCKS = 3


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking, count = bench.checking(), int(bench.settings["salts"])
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    computed = checking.first_ever(prompt, "a first-ever prompt")
    salts = [checking.new_salt() for _ in range(count)]
    asks = [partial(checking.first_ever, prompt, "a salt nobody used", salt=salt) for salt in salts]
    firsts = bench.probe.ask_all(asks, at_once=4)
    seconds = bench.probe.ask_all([partial(checking.ask, prompt, salt=salt) for salt in salts], at_once=4)
    for answer in seconds:
        checking.same(answer, computed, "a salted prompt")
    own = cached_sum(seconds)
    numbers["failed"] = failures([*firsts, *seconds])
    numbers["shared_tokens"] = cached_sum(firsts)
    numbers["own_share"] = None if own is None else own / (count * rule_tokens(len(prompt), bench.block_size))
    return applied(f"one prompt went through under {count} salts, twice each")


SALT_STORM = drill(
    name="salt-storm",
    title="Many salts on one prompt",
    expected="The first request of every salt finds nothing, the second finds its own blocks.",
    act=_act,
    expectations=(
        Expectation("shared_tokens", "tokens that a salt found of another", AtMost(0)),
        Expectation("own_share", "share of their own blocks that salts found again", AtLeast(0.9)),
        Expectation("failed", "requests that failed", AtMost(0)),
    ),
    needs=(*TOKENS, "salts"),
    parameters=(Parameter("salts", "count", 12, "how many salts", least=1, most=1000),),
    story=Story(
        fault="One prompt is sent under many salts, each twice.",
        signature="Half of the requests miss wholly (isolated, key kind salt) though the tokens are cached.",
        rollback="None is needed: the salted blocks age out.",
        safety="Takes a few blocks of the pool for each salt.",
    ),
)
