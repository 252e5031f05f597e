"""What was derived from the scrapes of one engine so far: intervals, windows, curve state.

``Reading`` is what the exporter exposes, the chaos frame judges and the report draws. It is plain data:
``as_json`` and ``reading_from_json`` turn it into JSON values and back.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from hitcurve.sample import SourceUnit

__all__ = [
    "CAUSES",
    "STATES",
    "UNHEALTHY_STATES",
    "Cause",
    "CurveState",
    "Cut",
    "CutKind",
    "Interval",
    "Reading",
    "RequestWindowRate",
    "ServedRate",
    "StateName",
    "WindowRate",
    "as_json",
    "reading_from_json",
]

StateName = Literal[
    "no_traffic", "cold", "warming", "steady", "low", "degraded", "collapsed", "oscillating", "stalled"
]
Cause = Literal[
    "restart",
    "reset",
    "pool_pressure",
    "lora_churn",
    "traffic_shift",
    "isolation",
    "short_prefix",
    "unknown",
]
CutKind = Literal["start", "restart", "reset", "adapter_load"]

STATES: tuple[StateName, ...] = get_args(StateName)
CAUSES: tuple[Cause, ...] = get_args(Cause)
UNHEALTHY_STATES: frozenset[StateName] = frozenset({"low", "degraded", "collapsed", "oscillating", "stalled"})


@dataclass(frozen=True, slots=True)
class ServedRate:
    """Prompt tokens of requests served in an interval and those of them that came from any cache."""

    prompt_tokens: float
    cached_tokens: float
    hit_rate: float | None
    """cached / prompt, at most 1; ``None`` where nothing was served."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Traffic between two good scrapes, restart-corrected. Volumes in tokens, times in seconds."""

    from_s: float
    to_s: float
    queries: float | None
    hits: float | None
    hit_rate: float | None
    """hits / queries, at most 1; ``None`` where nothing was looked up or the counters cannot be compared."""
    source_unit: SourceUnit = "tokens"
    requests: float | None = None
    restarts: int = 0
    flags: tuple[str, ...] = ()
    served: ServedRate | None = None
    tiers: Mapping[str, float] | None = None
    """Hit tokens of a tier / query tokens, by tier; ``None`` where the page tells no tiers."""


@dataclass(frozen=True, slots=True)
class WindowRate:
    """Rate-based hit rate: increase of hits / increase of queries over the last ``window_s`` seconds."""

    window_s: float
    queries: float
    hits: float
    hit_rate: float | None


@dataclass(frozen=True, slots=True)
class RequestWindowRate:
    """Request-window hit rate: the same over the last ``max_requests`` requests."""

    max_requests: int
    requests: float
    hit_rate: float | None
    lag_s: float | None
    """max_requests / request rate: how long a change needs to pass through the window."""


@dataclass(frozen=True, slots=True)
class CurveState:
    """State of the curve, since when, with the numbers that decided it."""

    state: StateName
    cause: Cause | None
    since_s: float
    evidence: Mapping[str, float | str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where an epoch ends: no rate, window, baseline or alarm reaches over it."""

    at_s: float
    kind: CutKind


@dataclass(frozen=True, slots=True)
class Reading:
    """All that is known of one engine after one scrape of its target."""

    target: str
    engine: str
    at_s: float
    up: bool
    failure: str | None = None
    """Why the scrape brought nothing; ``None`` when it was good."""
    labels: Mapping[str, str] = field(default_factory=dict)
    interval: Interval | None = None
    windows: tuple[WindowRate, ...] = ()
    request_window: RequestWindowRate | None = None
    cumulative_hit_rate: float | None = None
    query_tokens_total: float = 0.0
    """Tokens looked up since watching began, over restarts; never falls."""
    hit_tokens_total: float = 0.0
    requests_total: float | None = None
    """``None`` where the engine does not count requests."""
    restarts_total: int = 0
    resets_total: int = 0
    kv_usage: float | None = None
    preemptions_total: float | None = None
    """Since watching began, over restarts; ``None`` where the engine does not count them. So are evictions."""
    evicted_blocks_total: float | None = None
    mean_ttft_s: float | None = None
    """Mean time to first token of the requests of the newest interval; ``None`` without any."""
    running: float | None = None
    waiting: float | None = None
    running_adapters: tuple[str, ...] = ()
    block_size: int | None = None
    pool_blocks: int | None = None
    capacity_tokens: int | None = None
    min_reusable_prefix_tokens: int | None = None
    state: CurveState | None = None
    cuts: tuple[Cut, ...] = ()
    """Cuts seen with this scrape."""
    flags: tuple[str, ...] = ()


def as_json(reading: Reading) -> dict[str, Any]:
    """JSON values of a reading; ``null`` is "no value"."""
    return asdict(reading)


def reading_from_json(values: Mapping[str, Any]) -> Reading:
    """The inverse of ``as_json``; unknown keys raise TypeError."""
    known = dict(values)
    known["interval"] = _interval(known.get("interval"))
    known["windows"] = tuple(WindowRate(**window) for window in known.get("windows", ()))
    if known.get("request_window") is not None:
        known["request_window"] = RequestWindowRate(**known["request_window"])
    if known.get("state") is not None:
        known["state"] = CurveState(**known["state"])
    known["cuts"] = tuple(Cut(**cut) for cut in known.get("cuts", ()))
    known["flags"] = tuple(known.get("flags", ()))
    known["running_adapters"] = tuple(known.get("running_adapters", ()))
    return Reading(**known)


def _interval(values: Mapping[str, Any] | None) -> Interval | None:
    if values is None:
        return None
    served = values.get("served")
    known = {**values, "flags": tuple(values.get("flags", ())), "served": served and ServedRate(**served)}
    return Interval(**known)
