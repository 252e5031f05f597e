"""The steady-state hypothesis: nothing is injected unless the curve is steady and the traffic is sound."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hitcurve_chaos.parameters import Settings
from hitcurve_chaos.watch import Watch

__all__ = ["Baseline", "await_steady"]

_UNANSWERED = "no background request was answered"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Whether the hypothesis was met, since when the curve is steady, and else why not."""

    met: bool
    from_s: float
    reason: str = ""
    word: Literal["no_data", "invalid"] = "invalid"


def await_steady(
    watch: Watch, settings: Settings, load_problem: Callable[[], str | None], *, judges_requests: bool
) -> Baseline:
    """Wait until the curve has been steady for ``baseline`` seconds with sound traffic.

    Sound: the background load runs, and in that time a request of it was answered and none failed (where there is
    a background load). Gives up after ``baseline_within`` seconds, or at once when the load has ended.
    """
    started_s = watch.clock.now()
    wanted_s: float = settings["baseline"]

    def from_s() -> float:
        last = watch.curve.last
        return last.at_s - wanted_s if last else started_s

    def requests_trouble() -> str | None:
        if not judges_requests:
            return None
        recent = watch.requests.between(from_s(), watch.clock.now())
        failed = [record for record in recent if not record.ok]
        if failed:
            return f"{len(failed)} background requests failed ({failed[-1].reason})"
        return None if recent else _UNANSWERED

    def steady() -> bool:
        fresh = [p for p in watch.curve.points if p.at_s >= started_s]
        return bool(fresh) and watch.curve.steady_for_s() >= wanted_s and requests_trouble() is None

    watch.until(lambda: steady() or load_problem() is not None, settings["baseline_within"])
    if load_problem() is None and steady():
        return Baseline(True, from_s())
    return _not_met(watch, started_s, load_problem() or requests_trouble(), settings)


def _not_met(watch: Watch, started_s: float, trouble: str | None, settings: Settings) -> Baseline:
    within = f"within {settings['baseline_within']:g} s"
    fresh = [point for point in watch.curve.points if point.at_s >= started_s and point.up]
    if not fresh:
        why = watch.source.trouble or "no reading came"
        return Baseline(False, started_s, f"the curve could not be read {within}: {why}", "no_data")
    state = fresh[-1].state
    idle = state in (None, "no_traffic") or not any(point.queries for point in fresh)
    if idle and trouble in (None, _UNANSWERED):
        why = f"nothing was looked up in the cache {within}: there is no traffic"
        return Baseline(False, started_s, why, "no_data")
    if trouble is not None:
        return Baseline(False, started_s, f"the traffic was not sound {within}: {trouble}", "invalid")
    held_s = watch.curve.steady_for_s()
    return Baseline(
        False,
        started_s,
        f"the curve was not steady for {settings['baseline']:g} s {within}: it is {state} and was steady for "
        f"{held_s:.0f} s; give it more time with --baseline-within",
        "invalid",
    )
