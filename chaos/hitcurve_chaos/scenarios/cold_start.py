"""An empty cache: the first prompt finds nothing, the second everything, and without traffic there is no rate."""

from hitcurve.curve import CurveClassifier
from hitcurve.monitor import TargetMonitor
from hitcurve_chaos.engine_page import scrape_engine
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation, OneOf
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill, post_reset, rule_tokens
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["COLD_START"]

_BLOCKS = 6


def _act(bench: Bench, numbers: Numbers) -> Injection:
    meaning, said = post_reset(bench)
    if meaning not in ("applied", "unverified"):
        return Injection("refused", f"the cache could not be made cold ({said})")
    numbers["rate_without_traffic"] = _rate_without_traffic(bench)
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    checking = bench.checking()
    first = checking.first_ever(prompt, "the first prompt of a cold cache")
    second = checking.ask(prompt)
    checking.same(second, first, "the second prompt of a cold cache")
    numbers["first_cached_tokens"] = first.cached_tokens
    due = rule_tokens(len(prompt), bench.block_size)
    numbers["warm_share"] = None if second.cached_tokens is None else second.cached_tokens / due
    return applied("the cache was made cold and warmed by one prompt")


def _rate_without_traffic(bench: Bench) -> str:
    monitor = TargetMonitor(bench.target.name, windows_s=(5.0,), classifier_factory=CurveClassifier)
    rates = []
    for _ in range(2):
        page = scrape_engine(bench.target.engine)
        rates = [reading.interval.hit_rate for reading in monitor.observe(page) if reading.interval]
    return "no value" if rates and all(rate is None for rate in rates) else f"{rates}"


COLD_START = drill(
    name="cold-start",
    title="Cold start",
    expected="The first prompt finds nothing, the second all its full blocks; without traffic there is no rate.",
    act=_act,
    expectations=(
        Expectation("first_cached_tokens", "tokens the first prompt found cached", AtMost(0)),
        Expectation("warm_share", "share of its full blocks that the second found", AtLeast(1)),
        Expectation("rate_without_traffic", "hit rate of an interval without traffic", OneOf(("no value",))),
    ),
    needs=(*TOKENS, "reset", "counters"),
    story=Story(
        fault="The cache is reset on an idle engine, so that it is as cold as after a start.",
        signature="No rate while nothing is looked up, then a rate that begins at 0 and climbs.",
        rollback="None is needed: traffic fills the cache again.",
        safety="Everybody's prefixes are gone from the cache of this engine.",
    ),
)
