"""The way to the engine is slow: answers come late and are right, and the engine behind it does not care."""

from functools import partial

from hitcurve_chaos.fault_proxy import Weather, fault_proxy
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import applied, cached_sum, drill, failures, p50_s
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["SLOW_NETWORK"]

_BLOCKS = 4
_REQUESTS = 8
_MODEST_BYTES_PER_S = 200_000.0


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking, latency_s = bench.checking(), float(bench.settings["latency"])
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    computed = checking.first_ever(prompt, "a first-ever prompt")
    direct = [checking.ask(prompt) for _ in range(_REQUESTS)]
    with fault_proxy(bench.target.engine, bench.randomness) as proxy:
        numbers["answered_through_proxy"] = int(checking.probe.ask(prompt, engine=proxy.url).completed)
        proxy.weather = Weather(latency_s, float(bench.settings["jitter"]), _MODEST_BYTES_PER_S)
        slow = bench.probe.ask_all(
            [partial(checking.ask, prompt, engine=proxy.url) for _ in range(_REQUESTS)], at_once=4
        )
    for answer in slow:
        checking.same(answer, computed, "an answer over a slow network")
    numbers["failed"] = failures(slow)
    numbers["cached_tokens"] = cached_sum(slow)
    before_s, after_s = p50_s(direct), p50_s(slow)
    numbers["direct_p50_s"], numbers["slow_p50_s"] = before_s, after_s
    numbers["slower_by_s"] = None if before_s is None or after_s is None else after_s - before_s
    return applied(f"requests went through {latency_s:g} s of latency with jitter and little bandwidth")


SLOW_NETWORK = drill(
    name="slow-network",
    title="Slow network",
    expected="Requests take longer by the latency and are answered rightly, from the cache as before.",
    act=_act,
    expectations=(
        Expectation("failed", "requests that failed", AtMost(0)),
        Expectation("cached_tokens", "tokens served from the cache over the slow way", AtLeast(1)),
    ),
    conditions=(
        Expectation("answered_through_proxy", "whether a request through the proxy was answered", AtLeast(1)),
        Expectation("slower_by_s", "seconds that requests took longer", AtLeast(0.01)),
    ),
    parameters=(
        Parameter("latency", "duration", 0.1, "added to each piece of an answer", least=0.02),
        Parameter("jitter", "duration", 0.05, "up to so much more"),
    ),
    story=Story(
        fault="A proxy on this machine adds latency, jitter and a bandwidth limit between client and engine.",
        signature="The hit rate is as before; only the clients' TTFT rises.",
        rollback="The proxy lives in the run and ends with it.",
        safety="Only the scenario's own requests pass through it.",
    ),
)
