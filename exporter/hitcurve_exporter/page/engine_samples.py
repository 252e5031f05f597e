"""The samples of one engine, from its newest reading."""

from collections.abc import Sequence
from typing import Final

from hitcurve.reading import CAUSES, STATES, Reading
from hitcurve_exporter.configuration.durations import format_duration
from hitcurve_exporter.page.lines import Lines, label_text

__all__ = ["engine_lines"]

_STATE_LABELS: Final = {state: label_text([("state", state)]) for state in STATES}
_CAUSE_LABELS: Final = {cause: label_text([("cause", cause)]) for cause in CAUSES}


def engine_lines(
    reading: Reading,
    target_name: str,
    extra_labels: Sequence[tuple[str, str]] = (),
    *,
    tokens_known: bool = True,
    watched_since_s: float | None = None,
) -> Lines:
    """Every sample that the reading has a value for, and none where it has no value.

    ``tokens_known`` is false where the engine counts blocks of unknown size, so that volumes have no value.
    ``watched_since_s`` is when the engine was first seen.
    """
    identity = [("target", target_name), ("engine", reading.engine)]
    labels = label_text([*identity, ("model_name", reading.labels.get("model_name", "")), *extra_labels])
    lines = Lines()
    _hit_rates(lines, labels, reading)
    if watched_since_s is not None:
        _coverage(lines, labels, reading, watched_since_s)
    _totals(lines, labels, reading, tokens_known)
    _curve(lines, labels, reading)
    lines.add("hitcurve_running_requests", labels, reading.running)
    lines.add("hitcurve_waiting_requests", labels, reading.waiting)
    lines.add("hitcurve_kv_usage_ratio", labels, reading.kv_usage)
    lines.add("hitcurve_capacity_tokens", labels, reading.capacity_tokens)
    lines.add("hitcurve_block_size_tokens", labels, reading.block_size)
    lines.add("hitcurve_min_reusable_prefix_tokens", labels, reading.min_reusable_prefix_tokens)
    return lines


def _hit_rates(lines: Lines, labels: str, reading: Reading) -> None:
    for window in reading.windows:
        own = f'window="{format_duration(window.window_s)}"'
        lines.add("hitcurve_hit_rate_ratio", labels, window.hit_rate, own)
        lines.add("hitcurve_prefill_speedup_ratio", labels, _speedup(window.hit_rate), own)
    requests = reading.request_window
    if requests is not None:
        lines.add("hitcurve_request_window_hit_rate_ratio", labels, requests.hit_rate)
        lines.add("hitcurve_request_window_requests", labels, requests.requests)
        lines.add("hitcurve_request_window_lag_seconds", labels, requests.lag_s)
    lines.add("hitcurve_cumulative_hit_rate_ratio", labels, reading.cumulative_hit_rate)


def _coverage(lines: Lines, labels: str, reading: Reading, since_s: float) -> None:
    for window in reading.windows:
        own = f'window="{format_duration(window.window_s)}"'
        covered_s = max(0.0, min(window.window_s, reading.at_s - since_s))
        lines.add("hitcurve_window_covered_seconds", labels, covered_s, own)


def _totals(lines: Lines, labels: str, reading: Reading, tokens_known: bool) -> None:
    if tokens_known:
        lines.add("hitcurve_query_tokens_total", labels, reading.query_tokens_total)
        lines.add("hitcurve_hit_tokens_total", labels, reading.hit_tokens_total)
    lines.add("hitcurve_requests_total", labels, reading.requests_total)
    lines.add("hitcurve_engine_restarts_total", labels, reading.restarts_total)
    lines.add("hitcurve_cache_resets_total", labels, reading.resets_total)
    lines.add("hitcurve_preemptions_total", labels, reading.preemptions_total)
    lines.add("hitcurve_evicted_blocks_total", labels, reading.evicted_blocks_total)


def _curve(lines: Lines, labels: str, reading: Reading) -> None:
    """Nothing of an engine that is down: its last state would pass for that of now."""
    curve = reading.state
    if curve is None or not reading.up:
        return
    for state, own in _STATE_LABELS.items():
        lines.add("hitcurve_curve_state", labels, int(curve.state == state), own)
    for cause, own in _CAUSE_LABELS.items():
        lines.add("hitcurve_curve_cause", labels, int(curve.cause == cause), own)
    lines.add("hitcurve_curve_state_since_timestamp_seconds", labels, curve.since_s)


def _speedup(hit_rate: float | None) -> float | None:
    return None if hit_rate is None or hit_rate >= 1 else 1 / (1 - hit_rate)
