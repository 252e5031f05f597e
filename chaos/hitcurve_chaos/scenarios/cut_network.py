"""Connections are reset, swallowed or cut in the middle: the engine lets go of what nobody waits for."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from hitcurve_chaos.clock import wait_until
from hitcurve_chaos.fault_proxy import FaultProxy, Weather, fault_proxy
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.scenarios.drills import applied, drill
from hitcurve_chaos.scenarios.scenario import Bench, Story
from hitcurve_chaos.streams import StreamEnd, read_stream

__all__ = ["CUT_NETWORK"]

_BLOCKS = 4
_EACH = 4
_CUT_AFTER_BYTES = 900
_PATIENCE_S = 1.0
_SETTLED_S = 10.0


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking = bench.checking()
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    computed = checking.first_ever(prompt, "a first-ever prompt")
    weathers = {
        "cut": Weather(cut_after_bytes=_CUT_AFTER_BYTES),
        "reset": Weather(reset=True),
        "swallowed": Weather(black_hole=True),
    }
    with fault_proxy(bench.target.engine, bench.randomness) as proxy:
        for name, weather in weathers.items():
            proxy.weather = weather
            ends = _streams(bench, proxy)
            numbers[f"{name}_whole"] = sum(end.whole for end in ends)
        proxy.weather = Weather()
        through = checking.ask(prompt, engine=proxy.url)
    checking.same(through, computed, "an answer after the network was mended")
    numbers["cached_after"] = through.cached_tokens
    settled = wait_until(lambda: not bench.counters().running and not bench.counters().waiting, _SETTLED_S)
    numbers["running_left"] = 0 if settled else bench.counters().running
    numbers["whole"] = sum(int(numbers[f"{name}_whole"] or 0) for name in weathers)
    return applied("streams were cut, reset and swallowed on their way")


def _streams(bench: Bench, proxy: FaultProxy) -> list[StreamEnd]:
    tokens = int(bench.settings["output_tokens"])
    bodies = [
        {
            "model": bench.target.model,
            "prompt": bench.probe.new_tokens(_BLOCKS * bench.block_size + 1),
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
        }
        for _ in range(_EACH)
    ]
    read = partial(read_stream, proxy.url, headers=bench.target.headers(), timeout_s=_PATIENCE_S)
    with ThreadPoolExecutor(_EACH) as pool:
        return list(pool.map(read, bodies))


CUT_NETWORK = drill(
    name="cut-network",
    title="Cut network",
    expected="Clients see their streams fail, the engine ends those requests and frees their blocks, and goes on.",
    act=_act,
    expectations=(
        Expectation("running_left", "requests that still run though nobody waits for them", AtMost(0)),
        Expectation("cached_after", "tokens cached for a request after the network was mended", AtLeast(1)),
    ),
    conditions=(Expectation("whole", "streams that came through whole", AtMost(0)),),
    parameters=(Parameter("output_tokens", "count", 100, "length of the answers that are cut", least=20),),
    story=Story(
        fault="A proxy on this machine cuts streams in the middle, resets connections, and swallows them.",
        signature="Clients fail; running and KV usage fall back; the hit rate is as before.",
        rollback="The proxy lives in the run and ends with it.",
        safety="Only the scenario's own requests pass through it.",
    ),
)
