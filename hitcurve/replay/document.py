"""A replay as the JSON document that other programs read. ``null`` is "no value"."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hitcurve.counters import hit_rate
from hitcurve.curve import Episode
from hitcurve.reading import CurveState, Cut, Interval, ServedRate
from hitcurve.replay.history import EngineHistory, StateHistory, TargetWindow
from hitcurve.replay.run import Replay, ReplayedTarget
from hitcurve.sample import EngineSample

__all__ = ["as_document"]

NOT_AVAILABLE: Final = "not available from this source"
"""No engine's own series tell hit rates of single adapters: each carries the base model. The engine patch does."""


def as_document(replay: Replay) -> dict[str, Any]:
    """The document of ``hitcurve replay --json``: targets, fleet, windows."""
    return {
        "targets": {name: _target(target) for name, target in replay.targets.items()},
        "fleet": {"intervals": [_interval(interval) for interval in replay.fleet]},
        "windows": [_window(window) for target in replay.targets.values() for window in target.history.windows],
    }


def _target(target: ReplayedTarget) -> dict[str, Any]:
    history = target.history
    return {
        "intervals": [_interval(interval) for interval in history.intervals],
        "engines": {name: _engine(engine, target.samples.get(name)) for name, engine in history.engines.items()},
        "cumulative_hit_rate": _cumulative(target.samples.values()),
        "restarts": sum(interval.restarts for interval in history.intervals),
        "failed_scrapes": [{"at_s": failed.at_s, "reason": failed.reason} for failed in history.failed],
        "facts": _facts(tuple(target.samples.values())),
        **_states(history.states),
        "cuts": [_cut(cut) for cut in history.cuts],
        "episodes": [_episode(episode) for episode in _in_order(target.episodes)],
    }


def _engine(engine: EngineHistory, sample: EngineSample | None) -> dict[str, Any]:
    return {
        "labels": dict(engine.labels),
        "intervals": [_interval(interval) for interval in engine.intervals],
        "cumulative_hit_rate": None if sample is None else _cumulative([sample]),
        "restarts": sum(interval.restarts for interval in engine.intervals),
        "facts": _facts(() if sample is None else (sample,)),
        **_states(engine.states),
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {
        "from_s": interval.from_s,
        "to_s": interval.to_s,
        "queries": interval.queries,
        "hits": interval.hits,
        "hit_rate": interval.hit_rate,
        "source_unit": interval.source_unit,
        "restarts": interval.restarts,
        "flags": list(interval.flags),
        "served": _served(interval.served),
        "tiers": None if interval.tiers is None else dict(interval.tiers),
    }


def _served(served: ServedRate | None) -> dict[str, Any] | None:
    if served is None:
        return None
    return {
        "prompt_tokens": served.prompt_tokens,
        "cached_tokens": served.cached_tokens,
        "hit_rate": served.hit_rate,
    }


def _window(window: TargetWindow) -> dict[str, Any]:
    rate = window.rate
    return {
        "target": window.target,
        "at_s": window.at_s,
        "window_s": window.window_s,
        "queries": None if rate is None else rate.queries,
        "hits": None if rate is None else rate.hits,
        "hit_rate": None if rate is None else rate.hit_rate,
    }


def _states(states: StateHistory) -> dict[str, Any]:
    return {
        "state": None
        if states.last is None
        else {
            "state": states.last.state,
            "cause": states.last.cause,
            "since_s": states.last.since_s,
            "evidence": dict(states.last.evidence),
        },
        "states": [_transition(at_s, state) for at_s, state in states.transitions],
    }


def _transition(at_s: float, state: CurveState) -> dict[str, Any]:
    return {"at_s": at_s, "state": state.state, "cause": state.cause, "evidence": dict(state.evidence)}


def _cut(cut: Cut) -> dict[str, Any]:
    return {"at_s": cut.at_s, "kind": cut.kind}


def _in_order(episodes: Mapping[str, tuple[Episode, ...]]) -> list[Episode]:
    return sorted(
        (episode for found in episodes.values() for episode in found), key=lambda episode: episode.from_s
    )


def _episode(episode: Episode) -> dict[str, Any]:
    return {
        "from_s": episode.from_s,
        "to_s": episode.to_s,
        "depth": episode.depth,
        "lost_tokens": episode.lost_tokens,
        "cause": episode.cause,
    }


def _cumulative(samples: Iterable[EngineSample]) -> float | None:
    """Ratio of sums since start; counters in blocks of unknown size can stand only alone."""
    pairs = [sample.lookups for sample in samples if sample.lookups is not None]
    if len(pairs) > 1 and any(pair.tokens_per_unit is None for pair in pairs):
        return None
    queries = sum(pair.queries * (pair.tokens_per_unit or 1) for pair in pairs)
    return hit_rate(queries, sum(pair.hits * (pair.tokens_per_unit or 1) for pair in pairs))


def _facts(samples: tuple[EngineSample, ...]) -> dict[str, Any]:
    """What the last good page states; of several engines what they agree on, adapters and queues together."""

    def common(value: Callable[[EngineSample], Any]) -> Any:
        values = {value(sample) for sample in samples}
        return values.pop() if len(values) == 1 else None

    def total(value: Callable[[EngineSample], float | None]) -> float | None:
        values = [value(sample) for sample in samples]
        known = [one for one in values if one is not None]
        return sum(known) if known and len(known) == len(values) else None

    active = [sample.adapters for sample in samples if sample.adapters is not None]
    return {
        "block_size": common(lambda sample: sample.block_size),
        "pool_blocks": common(lambda sample: sample.pool_blocks),
        "capacity_tokens": common(lambda sample: sample.capacity_tokens),
        "min_reusable_prefix_tokens": common(lambda sample: sample.min_reusable_prefix_tokens),
        "running_adapters": sorted({name for one in active for name in one.running}) if active else None,
        "waiting_adapters": sorted({name for one in active for name in one.waiting}) if active else None,
        "adapter_hit_rates": _adapter_hit_rates(samples) or (NOT_AVAILABLE if active else None),
        "max_adapters": max((one.max_adapters or 0 for one in active), default=0) or None,
        "requests_running": total(lambda sample: sample.running),
        "requests_waiting": total(lambda sample: sample.waiting),
        "kv_usage": common(lambda sample: sample.kv_usage),
        "start_time_s": common(lambda sample: sample.start_time_s),
        "counter": common(lambda sample: sample.lookups.spelling if sample.lookups else None),
        "source_unit": common(lambda sample: sample.lookups.unit if sample.lookups else None),
    }


def _adapter_hit_rates(samples: tuple[EngineSample, ...]) -> dict[str, float | None]:
    """Since start, by the counters of the engine patch; the base model is called ``""``."""
    totals: dict[str, tuple[float, float]] = {}
    for sample in samples:
        for adapter, (queries, hits) in (sample.explained.by_adapter if sample.explained else {}).items():
            before = totals.get(adapter, (0.0, 0.0))
            totals[adapter] = (before[0] + queries, before[1] + hits)
    return {adapter: hit_rate(*total) for adapter, total in sorted(totals.items())}
