"""The same prompts over many adapters: each adapter computes its own copy, which is what scattering costs."""

from hitcurve_chaos.faults.adapters import AdapterEndpoints
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.probe import ProbeAnswer
from hitcurve_chaos.scenarios.drills import TOKENS, adapters_left, applied, drill, put_adapters_back
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["ADAPTER_SCATTER"]

_BLOCKS = 5


def _act(bench: Bench, numbers: Numbers) -> Injection:
    endpoints, checking = AdapterEndpoints(bench.target, bench.transport), bench.checking()
    count = int(bench.settings["adapters"])
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    base = [checking.ask(prompt) for _ in range(count)]
    scattered: list[ProbeAnswer] = []
    known = list(bench.target.adapters)
    for number in range(count):
        name, adapter = f"{bench.fault_prefix}{number}", known[number % len(known)]
        answer = endpoints.load(name, adapter.path)
        if answer.status != 200:
            return Injection("failed" if scattered else "refused", f"no adapter was loaded ({answer.said})")
        first = checking.first_ever(prompt, "a new adapter", model=name)
        checking.same(checking.ask(prompt, model=name), first, "a prompt of an adapter")
        scattered.append(first)
    for kind, answers in (("base", base), ("scattered", scattered)):
        cached = [one.cached_tokens for one in answers if one.cached_tokens is not None]
        prompts = sum(one.prompt_tokens or 0 for one in answers)
        numbers[f"{kind}_hit_rate"] = sum(cached) / prompts if prompts and len(cached) == count else None
    numbers["adapters_answered"] = sum(one.completed for one in scattered)
    return applied(f"one prompt went to {count} adapters once each")


ADAPTER_SCATTER = drill(
    name="adapter-scatter",
    title="The same prompts over many adapters",
    expected="Every adapter starts cold: the hit rate is 0 where the base model alone would have had most of it.",
    act=_act,
    expectations=(
        Expectation("scattered_hit_rate", "hit rate of the first request of each adapter", AtMost(0)),
        Expectation("base_hit_rate", "hit rate of as many requests to the base model", AtLeast(0.4)),
    ),
    conditions=(Expectation("adapters_answered", "adapters that answered", AtLeast(2)),),
    needs=(*TOKENS, "two_adapters"),
    parameters=(Parameter("adapters", "count", 6, "how many adapters", least=2, most=64),),
    left=adapters_left,
    put_back=put_adapters_back,
    story=Story(
        fault="One prompt is sent to each of several new adapters, and as often to the base model.",
        signature="Misses of kind isolated; cause lora_churn or isolation where the page tells adapters.",
        rollback="Every adapter whose name begins with the run's prefix is unloaded.",
        safety="Takes as many adapter slots; with fewer slots than adapters, they are swapped.",
    ),
)
