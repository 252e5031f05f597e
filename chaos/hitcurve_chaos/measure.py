"""The numbers of a verdict: how far the curve fell, how soon it was named, how it recovered, what it cost."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hitcurve.rate_text import percent
from hitcurve_chaos.curve import CurvePoint
from hitcurve_chaos.parameters import Settings
from hitcurve_chaos.request_tail import cached_share, ttft_p50_s
from hitcurve_chaos.scenarios.scenario import Spans
from hitcurve_chaos.verdict import Number
from hitcurve_chaos.watch import Watch

__all__ = ["NEVER", "foreign_share", "measure", "sentence"]

NEVER: Final = "never"
"""Value of a count or time of something that was watched for and did not come; ``None`` is "could not be seen"."""
_SCRAPES_OWED = 2


def measure(
    watch: Watch,
    spans: Spans,
    settings: Settings,
    named: Sequence[str],
    *,
    recovered_at_s: float | None,
    finished_at_s: float,
) -> dict[str, Number]:
    """Numbers every scenario has. Rates are ratios of sums over intervals; times in seconds, volumes in tokens."""
    return {
        **_depth(watch, spans, settings),
        **_naming(watch, spans, named, finished_at_s),
        **_recovery(watch, spans, recovered_at_s, finished_at_s),
        **_requests(watch, spans, recovered_at_s or finished_at_s, finished_at_s),
    }


def _depth(watch: Watch, spans: Spans, settings: Settings) -> dict[str, Number]:
    curve = watch.curve
    usual = curve.usual_queries(spans.baseline_from_s, spans.fault_from_s)
    before = curve.lowest(spans.baseline_from_s, spans.fault_from_s, usual_queries=usual)
    lowest = curve.lowest(spans.fault_from_s, spans.watched_to_s, usual_queries=usual)
    floor = before.interval_rate if before else None
    depth = lowest.interval_rate if lowest else None
    numbers: dict[str, Number] = {
        "baseline_rate": curve.rate(spans.baseline_from_s, spans.fault_from_s),
        "baseline_lowest_rate": floor,
        "lowest_rate": depth,
        "lowest_after_s": lowest.at_s - spans.fault_from_s if lowest else None,
        "fall_beyond_noise": None if floor is None or depth is None else floor - depth,
        "scrapes_to_fall": None,
    }
    during = curve.between(spans.fault_from_s, spans.watched_to_s)
    if floor is not None and depth is not None:
        limit = floor - settings["fall"]
        numbers["scrapes_to_fall"] = _first(
            during, lambda p: p.interval_rate is not None and p.interval_rate <= limit
        )
    return numbers


def _naming(watch: Watch, spans: Spans, named: Sequence[str], finished_at_s: float) -> dict[str, Number]:
    seen = [p for p in watch.curve.between(spans.fault_from_s, finished_at_s) if p.up]
    # A state is owed within two scrapes, so a fault of the last moment may be named just after its end.
    during = seen[: sum(point.at_s <= spans.watched_to_s for point in seen) + _SCRAPES_OWED]
    found = [point for point in during if point.state in named]
    start = next((p for p in reversed(watch.curve.points) if p.at_s <= spans.fault_from_s and p.up), None)
    worst = min(found, key=lambda point: named.index(point.state or ""), default=None)
    return {
        "scrapes_to_name": _first(during, lambda p: p.state in named) if during else None,
        "named_state": worst.state if worst else (NEVER if during else None),
        "named_cause": worst.cause if worst else None,
        "restarts": seen[-1].restarts - start.restarts if seen and start else None,
    }


def _recovery(watch: Watch, spans: Spans, recovered_at_s: float | None, finished_at_s: float) -> dict[str, Number]:
    curve = watch.curve
    baseline = curve.rate(spans.baseline_from_s, spans.fault_from_s)
    until_s = recovered_at_s or finished_at_s
    level = next((p.rate for p in curve.points if p.at_s == recovered_at_s), None)
    last = curve.last
    lost = [
        baseline * point.queries - point.hits
        for point in curve.between(spans.fault_from_s, until_s)
        if baseline is not None and point.queries is not None and point.hits is not None
    ]
    return {
        "recovered_rate": level if recovered_at_s else (last.rate if last else None),
        "tokens_lost": max(0.0, sum(lost)) if lost else None,
    }


def _requests(watch: Watch, spans: Spans, until_s: float, finished_at_s: float) -> dict[str, Number]:
    tail = watch.requests
    end_s = min(spans.watched_to_s, until_s)
    before = tail.between(spans.baseline_from_s, spans.fault_from_s)
    during = tail.between(spans.fault_from_s, end_s)
    after = tail.between(max(until_s, end_s), finished_at_s) or tail.between(end_s, finished_at_s)
    numbers: dict[str, Number] = {
        "requests_sent": len(during),
        "requests_failed": sum(not record.ok for record in during),
    }
    for when, records in (("before", before), ("during", during), ("after", after)):
        numbers[f"ttft_p50_{when}_s"] = ttft_p50_s(records)
        numbers[f"client_hit_rate_{when}"] = cached_share(records)
    return numbers


def foreign_share(watch: Watch, from_s: float, to_s: float | None) -> float | None:
    """Of the tokens that the engine looked up in the span, those of no request of this run.

    ``None`` where the engine or a request does not tell. Only whole intervals between scrapes count.
    """
    points = [p for p in watch.curve.between(from_s, to_s or from_s) if p.from_s is not None and p.queries]
    if not points:
        return None
    begin_s, end_s = min(p.from_s or p.at_s for p in points), points[-1].at_s
    own = [record for record in watch.requests.records if begin_s <= record.at_s < end_s and record.ok]
    if any(record.prompt_tokens is None for record in own):
        return None
    looked_up = sum(point.queries or 0.0 for point in points)
    return max(0.0, 1 - sum(record.prompt_tokens or 0 for record in own) / looked_up)


def _first(points: Sequence[CurvePoint], wanted: Callable[[CurvePoint], bool]) -> int | str:
    """Number of scrapes until the first wanted one, 1 for the very first."""
    return next((number for number, point in enumerate(points, start=1) if wanted(point)), NEVER)


def sentence(numbers: Mapping[str, Number], *, recovery_s: Number, more: str = "") -> str:
    """What the curve did, in one plain sentence; ``more`` is what one scenario adds."""
    base, lowest = _percent(numbers.get("baseline_rate")), _percent(numbers.get("lowest_rate"))
    if numbers.get("scrapes_to_fall") == numbers.get("scrapes_to_name") == NEVER:
        quiet = (
            f"The hit rate did not fall beyond its noise (baseline {base}, lowest {lowest}) and no state named it"
        )
        return quiet + (f"; {more}" if more else "") + "."
    parts = [f"The hit rate fell from {base} to {lowest} at its lowest"]
    scrapes = numbers.get("scrapes_to_name")
    if isinstance(scrapes, int):
        cause = f" (cause {numbers['named_cause']})" if numbers.get("named_cause") else ""
        state = numbers.get("named_state")
        parts.append(f"was named {state}{cause}, first after {scrapes} scrape{'s' if scrapes > 1 else ''}")
    else:
        parts.append("was not named by the curve state")
    if isinstance(recovery_s, int | float):
        parts.append(f"and was steady again at {_percent(numbers.get('recovered_rate'))} after {recovery_s:.1f} s")
    else:
        parts.append("and was not steady again in time")
    return ", ".join(parts) + (f"; {more}" if more else "") + "."


def _percent(rate: Number) -> str:
    return percent(rate if isinstance(rate, int | float) else None, 1, unit=" %")
