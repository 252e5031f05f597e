"""The prefix cache is reset under traffic: the curve falls at once, climbs back, and is steady again."""

from collections.abc import Mapping

from hitcurve_chaos.faults.fault import Fault
from hitcurve_chaos.faults.reset import ResetFault
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter, Settings
from hitcurve_chaos.scenarios.scenario import Bench, Scenario, Spans, Story
from hitcurve_chaos.verdict import Number

__all__ = ["RESET_PREFIX_CACHE"]


def _fault(bench: Bench) -> Fault:
    last = bench.watch.curve.last
    source = bench.watch.source
    return ResetFault(
        target=bench.target,
        transport=bench.transport,
        probe=bench.probe,
        clock=bench.clock,
        preempt=bench.settings["reset_running_requests"],
        mark=(lambda at_s: source.mark("reset", at_s)) if bench.settings["mark"] else None,
        probe_words=max(last.block_size or 0, 128) if last else 128,
    )


def _expectations(settings: Settings) -> list[Expectation]:
    return [
        Expectation("fall_beyond_noise", "fall below the lowest rate of the baseline", AtLeast(settings["fall"])),
        Expectation("scrapes_to_fall", "scrapes until the hit rate fell", AtMost(2)),
        Expectation("scrapes_to_name", "scrapes until the curve state named it", AtMost(2)),
        Expectation("restarts", "restarts of the counters (a reset must not touch them)", AtMost(0)),
    ]


def _own_numbers(bench: Bench, fault: Fault, spans: Spans) -> Mapping[str, Number]:
    """How far each of the three hit rates fell while the reset was watched, and by how much the slow one lags."""
    curve = bench.watch.curve
    before = [p for p in curve.points if p.at_s <= spans.fault_from_s]
    during = curve.between(spans.fault_from_s, spans.watched_to_s)
    numbers: dict[str, Number] = {}
    for name, attribute in (
        ("rate_based", "rate"),
        ("request_window", "request_window_rate"),
        ("cumulative", "cumulative_rate"),
    ):
        level = next((v for p in reversed(before) if (v := getattr(p, attribute)) is not None), None)
        lowest = min((v for p in during if (v := getattr(p, attribute)) is not None), default=None)
        numbers[f"{name}_drop"] = None if level is None or lowest is None else max(0.0, level - lowest)
    numbers["request_window_lag_s"] = before[-1].request_window_lag_s if before else None
    return numbers


def _remark(numbers: Mapping[str, Number]) -> str:
    points = {
        name: f"{100 * value:.1f}" if isinstance(value := numbers.get(f"{name}_drop"), int | float) else "unknown"
        for name in ("rate_based", "request_window", "cumulative")
    }
    return (
        f"in percentage points the rate-based hit rate fell by {points['rate_based']}, the request-window one by "
        f"{points['request_window']}, the cumulative one by {points['cumulative']}"
    )


RESET_PREFIX_CACHE = Scenario(
    name="reset-prefix-cache",
    title="Prefix cache reset under load",
    expected=(
        "The rate-based hit rate falls within 2 scrapes, is named, climbs back and is steady near its baseline; "
        "the request-window rate lags and the cumulative one hardly moves."
    ),
    parameters=(
        Parameter("reset_running_requests", "flag", True, "preempt running requests when the engine stays busy"),
        Parameter("mark", "flag", True, "tell the exporter of the reset, since engines do not count them"),
    ),
    named=("collapsed", "warming", "cold", "low", "degraded"),
    single_blow=True,
    fault=_fault,
    expectations=_expectations,
    story=Story(
        fault="POST to the reset endpoint while the background load runs; a busy engine is asked five times.",
        signature="The rate-based hit rate falls at once: collapsed or warming, cause reset, then a climb.",
        rollback="None is needed: traffic fills the cache again.",
        safety="Every request computes its whole prompt until the cache is warm: expect a burst of prefill work. "
        "reset_running_requests preempts running requests, which then start anew.",
    ),
    needs=("reset",),
    own_numbers=_own_numbers,
    remark=_remark,
)
