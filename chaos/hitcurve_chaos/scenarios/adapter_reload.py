"""An adapter comes back under its name with other weights: nothing of the old ones may come from the cache."""

from hitcurve_chaos.faults.adapters import AdapterEndpoints
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import TOKENS, adapters_left, applied, drill, put_adapters_back
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["ADAPTER_RELOAD"]

_BLOCKS = 5


def _act(bench: Bench, numbers: Numbers) -> Injection:
    endpoints, checking = AdapterEndpoints(bench.target, bench.transport), bench.checking()
    old, new = bench.target.adapters[:2]
    name = f"{bench.fault_prefix}reloaded"
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    answer = endpoints.load(name, old.path)
    if answer.status != 200:
        return Injection("refused", f"the engine did not load adapter '{old.name}' ({answer.said})")
    first = checking.first_ever(prompt, "a new adapter", model=name)
    warm = checking.ask(prompt, model=name)
    checking.same(warm, first, "a prompt of the adapter")
    numbers["cached_before"] = warm.cached_tokens
    memory = [bench.counters().resident_bytes]
    gone = endpoints.unload(name)
    # Absence from /v1/models proves nothing: only a request shows whether the adapter is gone.
    numbers["answers_after_unload"] = int(bench.probe.ask(prompt, model=name).completed)
    answer = endpoints.load(name, new.path)
    if gone.status != 200 or answer.status != 200:
        return Injection("failed", f"the adapter was not loaded again ({gone.said}; {answer.said})")
    after = checking.ask(prompt, model=name)
    numbers["stale_cached_tokens"] = after.cached_tokens
    computed = checking.first_ever(prompt, "a new salt", model=name, salt=checking.new_salt())
    numbers["weights_differ"] = int(computed.output != first.output)
    numbers["stale_answers"] = int(checking.same(after, computed, "a reloaded adapter", of_cache=False) is False)
    memory.append(bench.counters().resident_bytes)
    numbers["resident_bytes_before"], numbers["resident_bytes_after"] = memory
    return applied("an adapter was unloaded and loaded again under its name with other weights")


ADAPTER_RELOAD = drill(
    name="adapter-reload",
    title="Adapter reloaded with other weights",
    expected="After the reload the adapter answers as its new weights do, and nothing of the old ones is cached.",
    act=_act,
    expectations=(
        Expectation("stale_answers", "answers that the old weights gave", AtMost(0)),
        Expectation("answers_after_unload", "answers of the adapter while it was unloaded", AtMost(0)),
        Expectation("stale_cached_tokens", "tokens of the old weights that are still served", AtMost(0)),
    ),
    conditions=(
        Expectation("cached_before", "tokens cached for the old weights", AtLeast(1)),
        Expectation("weights_differ", "whether the two adapters answer differently", AtLeast(1)),
    ),
    needs=(*TOKENS, "salts", "two_adapters"),
    left=adapters_left,
    put_back=put_adapters_back,
    story=Story(
        fault="An adapter is loaded and used, unloaded, and another one is loaded under the same name.",
        signature="No hits and new answers. vLLM before 0.31 hashes the name alone and serves stale blocks.",
        rollback="The adapter is unloaded; so is whatever begins with the run's prefix.",
        safety="Takes one adapter slot.",
    ),
)
