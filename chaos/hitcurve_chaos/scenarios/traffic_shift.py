"""The system prompt changes: one miss for each new prefix, then as before; the old one is still cached."""

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.probe import ProbeAnswer
from hitcurve_chaos.scenarios.drills import applied, drill
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["TRAFFIC_SHIFT"]

_BLOCKS = 8


def _act(bench: Bench, numbers: Numbers) -> Injection:
    size, count = bench.block_size, int(bench.settings["questions"])
    old, new = (bench.probe.new_tokens(_BLOCKS * size) for _ in range(2))
    before, after = _asked(bench, old, count), _asked(bench, new, count)
    rate_before, rate_after = _rate(before[1:]), _rate(after[1:])
    numbers["rate_before"], numbers["rate_after"] = rate_before, rate_after
    numbers["first_of_new_cached_tokens"] = after[0].cached_tokens
    numbers["old_still_cached_tokens"] = _asked(bench, old, 1)[0].cached_tokens
    if rate_before is not None and rate_after is not None:
        numbers["lasting_loss"] = max(0.0, rate_before - rate_after)
    return applied(f"the system prompt changed after {count} questions")


def _asked(bench: Bench, prefix: list[int], count: int) -> list[ProbeAnswer]:
    checking = bench.checking()
    return [checking.ask([*prefix, *bench.probe.new_tokens(bench.block_size + 1)]) for _ in range(count)]


def _rate(answers: list[ProbeAnswer]) -> float | None:
    cached = [answer.cached_tokens for answer in answers if answer.cached_tokens is not None]
    prompts = sum(answer.prompt_tokens or 0 for answer in answers)
    return sum(cached) / prompts if prompts and len(cached) == len(answers) else None


TRAFFIC_SHIFT = drill(
    name="traffic-shift",
    title="New system prompt",
    expected="The first request of the new prefix misses, the next hit as the old ones did; the old is kept.",
    act=_act,
    expectations=(
        Expectation("first_of_new_cached_tokens", "tokens of the new prefix its first request found", AtMost(0)),
        Expectation("lasting_loss", "hit rate of the old prefix beyond that of the new one", AtMost(0.02)),
        Expectation("old_still_cached_tokens", "tokens of the old prefix that are still cached", AtLeast(1)),
    ),
    conditions=(Expectation("rate_before", "hit rate before the shift", AtLeast(0.5)),),
    parameters=(Parameter("questions", "count", 6, "requests of each prefix", least=2, most=1000),),
    story=Story(
        fault="Questions behind one system prompt, then as many behind another.",
        signature="A dip of compulsory misses, then the old level: warming, steady, cause traffic_shift.",
        rollback="None is needed.",
        safety="A dozen short requests.",
    ),
)
