"""Many requests with one new prefix at the same moment: all are answered, and all alike."""

from functools import partial

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import applied, cached_sum, drill, failures
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["COLD_STAMPEDE"]

_BLOCKS = 12


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking, count = bench.checking(), int(bench.settings["requests"])
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    answers = bench.probe.ask_all([partial(checking.ask, prompt) for _ in range(count)], at_once=count)
    numbers["failed"] = failures(answers)
    cached = cached_sum(answers)
    numbers["stampede_hit_rate"] = None if cached is None else cached / (count * len(prompt))
    salt = checking.new_salt() if checking.salts else None
    computed = checking.first_ever(prompt, "a salt nobody used", salt=salt) if salt else answers[0]
    for answer in answers:
        checking.same(answer, computed, "one of a stampede")
    numbers["cached_after"] = checking.ask(prompt).cached_tokens
    return applied(f"{count} requests came with one new prefix at the same moment")


COLD_STAMPEDE = drill(
    name="cold-stampede",
    title="Concurrent cold stampede of one prefix",
    expected="Every request is answered, all of them alike, and afterwards the prefix is cached.",
    act=_act,
    expectations=(
        Expectation("failed", "requests that failed", AtMost(0)),
        Expectation("cached_after", "tokens of the prefix that are cached afterwards", AtLeast(1)),
    ),
    parameters=(Parameter("requests", "count", 12, "how many at the same moment", least=2, most=64),),
    story=Story(
        fault="A prompt nobody sent before is sent many times at once.",
        signature="Part of the requests miss (compulsory) though the prefix is being computed beside them.",
        rollback="None is needed.",
        safety="A burst of prefill work, as after a release that changes a system prompt.",
    ),
)
