"""LoRA adapters come and go under traffic: each starts cold, however warm its prompts are elsewhere."""

from collections.abc import Mapping, Sequence

from hitcurve_chaos.faults.adapters import CHURN, AdapterChurnFault, AdapterEndpoints
from hitcurve_chaos.faults.fault import Fault
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation, OneOf
from hitcurve_chaos.parameters import Parameter, Settings
from hitcurve_chaos.request_tail import cached_share
from hitcurve_chaos.scenarios.scenario import Bench, Scenario, Spans, Story
from hitcurve_chaos.targets import Adapter
from hitcurve_chaos.verdict import Number

__all__ = ["LORA_CHURN"]

_NAMED = ("low", "degraded", "oscillating", "collapsed", "warming", "cold")
_SIMULATED_PATH = "simulated"
_WITHOUT_A_FILE = 3


def _fault(bench: Bench) -> Fault:
    settings, target = bench.settings, bench.target
    slots = bench.counters().adapter_slots
    count = settings["adapters"] or (slots + 1 if slots else len(target.adapters) or _WITHOUT_A_FILE)
    traffic = dict(target.load)
    if settings["rate"]:
        traffic.pop("users", None)
        traffic["rate"] = settings["rate"]
    return AdapterChurnFault(
        endpoints=AdapterEndpoints(target, bench.transport),
        loads=bench.loads,
        requests=bench.watch.requests,
        probe=bench.probe,
        clock=bench.clock,
        adapters=_at_a_time(target.adapters, count),
        prefix=f"chaos-{int(bench.clock.now())}-{bench.randomness.randrange(16**4):04x}-",
        period_s=settings["period"],
        traffic=traffic,
        lasts_s=bench.longest_fault_s,
    )


def _at_a_time(known: Sequence[Adapter], count: int) -> list[Adapter]:
    """So many adapters, numbered so that no two names are the same; where fewer are known, again and again."""
    known = known or [Adapter("adapter", _SIMULATED_PATH)]
    chosen = [known[number % len(known)] for number in range(count)]
    return [Adapter(f"{one.name}-{number}", one.path) for number, one in enumerate(chosen, start=1)]


def _own_numbers(bench: Bench, fault: Fault, spans: Spans) -> Mapping[str, Number]:
    assert isinstance(fault, AdapterChurnFault)
    mine = [
        record
        for record in bench.watch.requests.records
        if record.load.startswith(f"{CHURN}-") and record.at_s >= spans.fault_from_s
    ]
    return {
        "generations": fault.generations,
        "adapters_at_a_time": len(fault.adapters),
        "adapter_slots": bench.counters().adapter_slots,
        "adapters_loaded": fault.loaded_total,
        "first_cached_tokens": fault.first_cached_tokens,
        "adapter_requests": len(mine),
        "adapter_requests_answered": sum(record.ok for record in mine),
        "adapter_hit_rate": cached_share(mine),
    }


def _remark(numbers: Mapping[str, Number]) -> str:
    loaded, slots = numbers.get("adapters_loaded"), numbers.get("adapter_slots")
    at_once = f", {numbers.get('adapters_at_a_time')} at a time" + (f" on {slots} slots" if slots else "")
    return f"{loaded} adapters came and went in {numbers.get('generations')} generations{at_once}"


def _expectations(settings: Settings) -> list[Expectation]:
    return [
        Expectation("fall_beyond_noise", "fall below the lowest rate of the baseline", AtLeast(settings["fall"])),
        Expectation("named_state", "state of the curve under churn", OneOf(_NAMED)),
        Expectation(
            "first_cached_tokens",
            "tokens a new adapter found cached at its first request",
            AtMost(0),
            optional=True,
        ),
        Expectation("restarts", "restarts of the engine", AtMost(0)),
    ]


LORA_CHURN = Scenario(
    name="lora-churn",
    title="LoRA adapter churn",
    expected=(
        "While adapters are loaded, used, unloaded and loaded under new names the hit rate falls, since each "
        "starts cold even for prompts that are cached elsewhere; it recovers when the churn ends."
    ),
    parameters=(
        Parameter(
            "adapters",
            "count",
            0,
            "how many adapters are loaded at a time; 0: one more than the engine has slots for or, where its page "
            "does not tell, those of the target file",
            most=256,
        ),
        Parameter(
            "period",
            "duration",
            4.0,
            "how long a generation of adapters lives, from its first answer on",
            least=0.5,
        ),
        Parameter("rate", "number", 0.0, "requests per second to the adapters; 0: like the background load"),
    ),
    named=_NAMED,
    single_blow=False,
    fault=_fault,
    expectations=_expectations,
    story=Story(
        fault="Adapters are loaded, used with the background load's prompts, unloaded, loaded under new names.",
        signature="Each starts cold, so the hit rate falls, cause lora_churn where the page tells adapters.",
        rollback="Every adapter whose name begins with the run's prefix is unloaded.",
        safety="Takes all adapter slots and one more: requests of users to their adapters may wait for one.",
    ),
    needs=("adapters",),
    conditions=(Expectation("adapter_requests_answered", "requests that adapters answered", AtLeast(1)),),
    own_numbers=_own_numbers,
    remark=_remark,
)
