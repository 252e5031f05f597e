"""Unique traffic floods the block pool: shared prefixes are evicted while it lasts, and come back afterwards."""

from collections.abc import Callable, Mapping

from hitcurve_chaos.faults.fault import Fault
from hitcurve_chaos.faults.unique_traffic import PRESSURE, UniqueTrafficFault, pressure_size
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation, OneOf
from hitcurve_chaos.parameters import Parameter, Settings
from hitcurve_chaos.request_tail import cached_share
from hitcurve_chaos.scenarios.scenario import Bench, Scenario, Spans, Story
from hitcurve_chaos.verdict import Number
from hitcurve_chaos.watch import Watch

__all__ = ["POOL_PRESSURE"]

_NAMED = ("low", "degraded", "oscillating", "collapsed")
_LOST_HITS = 0.05
_UNKNOWN_CAPACITY_TOKENS = 32_768


def _fault(bench: Bench) -> Fault:
    settings, last = bench.settings, bench.watch.curve.last
    capacity = last.capacity_tokens if last and last.capacity_tokens else _UNKNOWN_CAPACITY_TOKENS
    size = pressure_size(capacity, settings["refill"], prompt_tokens=settings["prompt_tokens"])
    return UniqueTrafficFault(
        loads=bench.loads,
        clock=bench.clock,
        size=size,
        seed=bench.seed,
        lasts_s=bench.longest_fault_s,
        bites=_bites(bench.watch, bench.baseline_from_s, bench.clock.now),
    )


def _bites(watch: Watch, baseline_from_s: float, now: Callable[[], float]) -> Callable[[], bool]:
    began_s = now()

    def bites() -> bool:
        spans = Spans(baseline_from_s, began_s, now())
        signs = _signs(watch, spans)
        return isinstance(signs["signs_of_pressure"], int) and signs["signs_of_pressure"] > 0

    return bites


def _signs(watch: Watch, spans: Spans) -> dict[str, Number]:
    """What the pool felt: blocks evicted, requests preempted, hits lost by the load that shares prefixes."""
    before = [point for point in watch.curve.points if point.up and point.at_s <= spans.fault_from_s]
    during = [p for p in watch.curve.between(spans.fault_from_s, spans.watched_to_s) if p.up]
    numbers: dict[str, Number] = {"evicted_blocks": None, "preemptions": None, "highest_kv_usage": None}
    if before and during:
        numbers["evicted_blocks"] = _increase(before[-1].evicted_blocks, during[-1].evicted_blocks)
        numbers["preemptions"] = _increase(before[-1].preemptions, during[-1].preemptions)
        numbers["highest_kv_usage"] = max((p.kv_usage for p in during if p.kv_usage is not None), default=None)
    usual = cached_share(watch.requests.between(spans.baseline_from_s, spans.fault_from_s))
    shared = cached_share(watch.requests.between(spans.fault_from_s, spans.watched_to_s))
    numbers["client_hits_lost"] = None if usual is None or shared is None else usual - shared
    signs = [
        ("evicted_blocks", 1.0),
        ("preemptions", 1.0),
        ("client_hits_lost", _LOST_HITS),
    ]
    known = [(numbers[name], least) for name, least in signs if isinstance(numbers[name], int | float)]
    numbers["signs_of_pressure"] = (
        sum(1 for value, least in known if isinstance(value, int | float) and value >= least) if known else None
    )
    return numbers


def _increase(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _own_numbers(bench: Bench, fault: Fault, spans: Spans) -> Mapping[str, Number]:
    assert isinstance(fault, UniqueTrafficFault)
    pressure = [r for r in bench.watch.requests.records if r.load.startswith(f"{PRESSURE}-")]
    mine = [record for record in pressure if record.at_s >= spans.fault_from_s]
    answered = bench.watch.requests.between(spans.fault_from_s, spans.watched_to_s)
    return {
        **_signs(bench.watch, spans),
        "answered_during": sum(record.ok for record in answered),
        "pressure_requests": len(mine),
        "pressure_requests_failed": sum(not record.ok for record in mine),
        "pressure_prompt_tokens": fault.size.prompt_tokens,
        "pressure_rate": fault.rate,
    }


def _remark(numbers: Mapping[str, Number]) -> str:
    words = [
        f"{value:.0f} {what}"
        for name, what in (("evicted_blocks", "blocks were evicted"), ("preemptions", "requests preempted"))
        if isinstance(value := numbers.get(name), int | float)
    ]
    lost = numbers.get("client_hits_lost")
    if isinstance(lost, int | float):
        words.append(f"the shared prefixes lost {100 * lost:.1f} points of their hits")
    return ", ".join(words)


def _expectations(settings: Settings) -> list[Expectation]:
    return [
        Expectation("fall_beyond_noise", "fall below the lowest rate of the baseline", AtLeast(settings["fall"])),
        Expectation("named_state", "state of the curve under pressure", OneOf(_NAMED)),
        Expectation("answered_during", "requests the engine answered under pressure", AtLeast(1)),
        Expectation("restarts", "restarts of the engine", AtMost(0)),
    ]


POOL_PRESSURE = Scenario(
    name="pool-pressure",
    title="Pool pressure by unique prompts",
    expected=(
        "While unique prompts flood the pool the hit rate falls, blocks are evicted or requests preempted and "
        "the curve is named low, degraded, oscillating or collapsed; the engine keeps answering, and the curve "
        "recovers."
    ),
    parameters=(
        Parameter("refill", "duration", 5.0, "the pressure fills the whole pool once in this time", least=0.1),
        Parameter("prompt_tokens", "count", 0, "size of a pressure prompt; 0: an eighth of the pool"),
    ),
    named=_NAMED,
    single_blow=False,
    fault=_fault,
    expectations=_expectations,
    story=Story(
        fault="A second load of long prompts that share nothing fills the pool again and again.",
        signature="Blocks are evicted or requests preempted; low, degraded, oscillating or collapsed.",
        rollback="The second load is ended; it ends by itself where the run dies.",
        safety="Competes with users for compute and memory while it lasts; TTFT rises for everybody.",
    ),
    needs=(),
    conditions=(
        Expectation(
            "signs_of_pressure", "signs that the pool felt it (evictions, preemptions, lost hits)", AtLeast(1)
        ),
    ),
    own_numbers=_own_numbers,
    remark=_remark,
)
