"""Routing forgets who has what: round-robin over replicas computes each prefix once per replica."""

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.probe import ProbeAnswer
from hitcurve_chaos.scenarios.drills import TOKENS, applied, cached_sum, drill
from hitcurve_chaos.scenarios.router import Router
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["AFFINITY_LOST"]

_BLOCKS = 8
_GROUPS = 4


def _act(bench: Bench, numbers: Numbers) -> Injection:
    router = Router(bench.probe, [bench.target, *bench.target.replicas])
    each = int(bench.settings["requests"])
    with_affinity = _asked(bench, router, each, affine=True)
    without = _asked(bench, router, each, affine=False)
    numbers["affinity_hit_rate"], numbers["scattered_hit_rate"] = _rate(with_affinity), _rate(without)
    rates = numbers["affinity_hit_rate"], numbers["scattered_hit_rate"]
    if isinstance(rates[0], float) and isinstance(rates[1], float):
        numbers["lost_by_scattering"] = rates[0] - rates[1]
    return applied(f"{_GROUPS} prefixes went {each} times each to their own replica, then round-robin")


def _asked(bench: Bench, router: Router, each: int, *, affine: bool) -> list[ProbeAnswer]:
    groups = [bench.probe.new_tokens(_BLOCKS * bench.block_size) for _ in range(_GROUPS)]
    answers = []
    for group, prefix in enumerate(groups):
        for _ in range(each):
            prompt = [*prefix, *bench.probe.new_tokens(3)]
            answers.append(router.ask(prompt, affinity=group if affine else None))
    return answers


def _rate(answers: list[ProbeAnswer]) -> float | None:
    cached, prompts = cached_sum(answers), sum(answer.prompt_tokens or 0 for answer in answers)
    return cached / prompts if cached is not None and prompts else None


AFFINITY_LOST = drill(
    name="affinity-lost",
    title="Prefix affinity of routing is lost",
    expected="With affinity only the first request of a prefix misses; round-robin loses one for every replica.",
    act=_act,
    expectations=(
        Expectation("affinity_hit_rate", "hit rate with each prefix on its own replica", AtLeast(0.5)),
        Expectation("lost_by_scattering", "hit rate that round-robin loses", AtLeast(0.05)),
    ),
    needs=(*TOKENS, "replicas"),
    parameters=(Parameter("requests", "count", 4, "requests of each prefix", least=2, most=100),),
    story=Story(
        fault="The same traffic is routed by prefix, then round-robin over the replicas.",
        signature="The fleet's hit rate falls while no replica evicts or restarts: compulsory misses.",
        rollback="None is needed.",
        safety="A few dozen short requests.",
    ),
)
