"""The JSON that programs read: ``GET /api/v1/engines``."""

from collections.abc import Sequence
from typing import Any

from hitcurve.reading import WindowRate, as_json
from hitcurve_exporter.fleet import ModelFleet, fleet_of
from hitcurve_exporter.kv_events.followed import kv_events_as_json
from hitcurve_exporter.scraping.watched_target import WatchedTarget

__all__ = ["engines_as_json"]


def engines_as_json(targets: Sequence[WatchedTarget], interval_s: float, at_s: float) -> dict[str, Any]:
    """The newest reading of every engine, the targets they came from, and the fleet.

    ``engines`` holds ``hitcurve.reading.as_json`` of each, which ``reading_from_json`` reads back.
    """
    readings = [reading for target in targets for reading in target.readings]
    fleet = fleet_of(readings)
    return {
        "at_s": at_s,
        "interval_s": interval_s,
        "engines": [as_json(reading) for reading in readings],
        "targets": [_target_as_json(target) for target in targets],
        "fleet": {
            "engines": fleet.engines,
            "engines_up": fleet.engines_up,
            "windows": [_window_as_json(window) for window in fleet.windows],
            "states": fleet.states,
            "models": [_model_as_json(name, model) for name, model in fleet.models.items()],
        },
    }


def _model_as_json(name: str, model: ModelFleet) -> dict[str, Any]:
    return {
        "model_name": name,
        "engines": model.engines,
        "engines_up": model.engines_up,
        "windows": [
            {**_window_as_json(window), "spread": model.spreads.get(window.window_s)} for window in model.windows
        ],
    }


def _window_as_json(window: WindowRate) -> dict[str, Any]:
    return {
        "window_s": window.window_s,
        "queries": window.queries,
        "hits": window.hits,
        "hit_rate": window.hit_rate,
    }


def _target_as_json(target: WatchedTarget) -> dict[str, Any]:
    last = target.last
    return {
        "target": target.config.name,
        "url": target.config.url,
        "labels": dict(target.config.labels),
        "up": None if last is None else target.up,
        "failure": None if last is None else last.failure,
        "failure_detail": None if last is None or last.failure is None else last.detail,
        "scraped_at_s": None if last is None else last.at_s,
        "last_success_at_s": target.last_success_s,
        "kv_events": kv_events_as_json(target.followed),
    }
