"""The wall clock of whoever watches jumps an hour ahead and two back: no rate, cut or state may come of it."""

import time
from functools import partial

from hitcurve.curve import CurveClassifier
from hitcurve.monitor import TargetMonitor
from hitcurve.reading import UNHEALTHY_STATES, Reading
from hitcurve_chaos.engine_page import scrape_engine
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["EXPORTER_CLOCK_JUMP"]

_BLOCKS = 4
_OFFSETS_S = (0.0, 0.0, 0.0, 3600.0, 3600.0, 3600.0, -3600.0, -3600.0, 0.0, 0.0)
_EVERY_S = 0.2


def _act(bench: Bench, numbers: Numbers) -> Injection:
    monitor = TargetMonitor(bench.target.name, windows_s=(1.0, 5.0), classifier_factory=CurveClassifier)
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    seen: list[Reading] = []
    for offset_s in _OFFSETS_S:
        bench.probe.ask(prompt)
        bench.clock.sleep(_EVERY_S)
        wall = partial(_ahead, offset_s)
        page = scrape_engine(bench.target.engine, wall=wall)
        seen += monitor.observe(page)
    rates = [reading.interval.hit_rate for reading in seen if reading.interval is not None]
    numbers["intervals_with_a_rate"] = sum(rate is not None for rate in rates)
    numbers["impossible_rates"] = sum(rate is not None and not 0.0 <= rate <= 1.0 for rate in rates)
    numbers["restarts_invented"] = seen[-1].restarts_total if seen else None
    numbers["unhealthy_states"] = sum(r.state is not None and r.state.state in UNHEALTHY_STATES for r in seen)
    return applied("the watcher's wall clock jumped an hour ahead and two back")


def _ahead(offset_s: float) -> float:
    return time.time() + offset_s


EXPORTER_CLOCK_JUMP = drill(
    name="exporter-clock-jump",
    title="Clock jump of the exporter",
    expected="Rates stay between 0 and 1, no restart is counted and no unhealthy state is named.",
    act=_act,
    expectations=(
        Expectation("impossible_rates", "hit rates below 0 or above 1", AtMost(0)),
        Expectation("restarts_invented", "restarts that were counted though there was none", AtMost(0)),
        Expectation("unhealthy_states", "readings with an unhealthy state", AtMost(0)),
    ),
    conditions=(Expectation("intervals_with_a_rate", "intervals that had a rate", AtLeast(3)),),
    needs=(*TOKENS, "counters"),
    story=Story(
        fault="The monitor that the exporter is made of reads the engine with a wall clock that jumps.",
        signature="Nothing: durations come from the monotonic clock.",
        rollback="None is needed: your own exporter is not touched.",
        safety="Ten short requests.",
    ),
)
