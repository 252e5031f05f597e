"""The JSON of one engine's curve: ``GET /api/v1/engines/{id}/curve?window=1h``."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hitcurve.reading import CurveState
from hitcurve_exporter.scraping.curve_history import CurveHistory
from hitcurve_exporter.scraping.watched_target import WatchedTarget

__all__ = ["NoSuchEngine", "curve_as_json", "engine_named"]


class NoSuchEngine(LookupError):
    """No engine, or more than one, is called so; the message says which."""


def engine_named(targets: Sequence[WatchedTarget], name: str) -> tuple[WatchedTarget, str]:
    """The engine ``TARGET/ENGINE``, or the only engine of ``TARGET``."""
    for target in targets:
        for engine in target.curves:
            if name == f"{target.config.name}/{engine}":
                return target, engine
    for target in targets:
        if name == target.config.name:
            if len(target.curves) == 1:
                return target, next(iter(target.curves))
            known = ", ".join(target.curves) or "none yet"
            raise NoSuchEngine(f"name one engine of this target as TARGET/ENGINE; its engines are {known}.")
    raise NoSuchEngine("no engine of that name is watched; see /api/v1/engines, and name it TARGET/ENGINE.")


def curve_as_json(target: WatchedTarget, engine: str, window_s: float, now_s: float) -> dict[str, Any]:
    """Everything about one engine from one moment on; ``null`` is "no value"."""
    history: CurveHistory = target.curves[engine]
    since_s = now_s - window_s
    last = history.states[-1] if history.states else None
    newest = next((reading for reading in target.readings if reading.engine == engine), None)
    state = newest.state if newest is not None else None
    return {
        "target": target.config.name,
        "engine": engine,
        "labels": {} if newest is None else dict(newest.labels),
        "at_s": now_s,
        "window_s": window_s,
        "up": newest is not None and newest.up,
        "points": [asdict(point) for point in history.points(since_s)],
        "state": None if state is None else {**_state(state), "since_s": state.since_s},
        "states": [
            {"at_s": at_s, **_state(entered)}
            for at_s, entered in history.states
            if at_s > since_s or (at_s, entered) == last
        ],
        "cuts": [asdict(cut) for cut in history.cuts if cut.at_s > since_s],
        "failed_scrapes": [{"at_s": at_s, "reason": why} for at_s, why in history.failed if at_s > since_s],
        "episodes": [
            asdict(episode) for episode in history.episodes if episode.to_s is None or episode.to_s > since_s
        ],
    }


def _state(state: CurveState) -> dict[str, Any]:
    return {"state": state.state, "cause": state.cause, "evidence": dict(state.evidence)}
