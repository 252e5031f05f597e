"""One target as the exporter knows it: its newest readings, what went wrong, and its part of the page."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from hitcurve.curve import Episode
from hitcurve.flags import ALL_FLAGS, UNKNOWN_BLOCK_SIZE
from hitcurve.monitor import total_windows
from hitcurve.reading import Reading
from hitcurve_exporter.configuration.durations import format_duration
from hitcurve_exporter.configuration.records import TargetConfig
from hitcurve_exporter.kv_events.followed import Followed, kv_lines
from hitcurve_exporter.page.engine_samples import engine_lines
from hitcurve_exporter.page.lines import Lines, label_text
from hitcurve_exporter.scraping.curve_history import CurveHistory
from hitcurve_exporter.scraping.fetched import FAILURE_REASONS, Fetched

__all__ = ["InternalErrors", "WatchedTarget"]

_NO_EPISODES: Final[Mapping[str, tuple[Episode, ...]]] = MappingProxyType({})
_LOG: Final = logging.getLogger("hitcurve.exporter")
_REASON_LABELS: Final = {reason: label_text([("reason", reason)]) for reason in FAILURE_REASONS}
_FLAG_LABELS: Final = {flag: label_text([("flag", flag)]) for flag in ALL_FLAGS}


class InternalErrors:
    """Counts errors of our own; shared by all targets, so that the count never falls when one of them goes."""

    def __init__(self) -> None:
        self.count = 0


class WatchedTarget:
    """Changed by ``take`` only, and rendered then: reading the page costs nothing per engine."""

    def __init__(self, config: TargetConfig, most_engines: int, internal_errors: InternalErrors) -> None:
        self.config = config
        self.readings: tuple[Reading, ...] = ()
        self.last: Fetched | None = None
        self.last_success_s: float | None = None
        self.skipped = 0
        self.lines = Lines()
        self.curves: dict[str, CurveHistory] = {}
        """By engine, what became of it."""
        self.followed: Sequence[Followed] = ()
        """Those who publish its KV events."""
        self._most_engines = most_engines
        self._internal_errors = internal_errors
        self._over_limit = 0
        self._errors: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        self._without_tokens: frozenset[str] = frozenset()
        self._labels = label_text([("target", config.name), *config.labels])

    @property
    def up(self) -> bool:
        """Whether the last scrape was good."""
        return self.last is not None and self.last.failure is None

    def kv_lines(self) -> Lines:
        """What is known of its KV events at this moment."""
        return kv_lines([("target", self.config.name), *self.config.labels], self.followed)

    def take(
        self,
        fetched: Fetched,
        readings: Sequence[Reading],
        episodes: Mapping[str, tuple[Episode, ...]] = _NO_EPISODES,
    ) -> None:
        """Replace what is known by the newest scrape; an engine that is in no reading any more is gone."""
        self._tell_changes(fetched)
        self.last = replace(fetched, body=None)
        self._over_limit = max(0, len(readings) - self._most_engines)
        self.readings = tuple(readings[: self._most_engines])
        if fetched.failure is None:
            self.last_success_s = fetched.at_s
        else:
            self._errors[fetched.failure] += 1
        if self.up:
            self._without_tokens = frozenset(
                reading.engine for reading in readings if UNKNOWN_BLOCK_SIZE in reading.flags
            )
        self._flags.update({flag for reading in readings for flag in reading.flags if flag in ALL_FLAGS})
        self._keep_curves(episodes)
        self.lines = self._rendered(fetched)

    def _keep_curves(self, episodes: Mapping[str, tuple[Episode, ...]]) -> None:
        known = [reading for reading in self.readings if reading.engine]
        self.curves = {reading.engine: self.curves.get(reading.engine) or CurveHistory() for reading in known}
        for reading in known:
            self.curves[reading.engine].add(reading, episodes.get(reading.engine, ()))

    def _rendered(self, fetched: Fetched) -> Lines:
        lines = Lines()
        for reading in self.readings:
            if not (reading.up or reading.engine):
                continue
            try:
                lines.extend(self._engine_lines(reading))
            except Exception:
                self._internal_errors.count += 1
                _LOG.exception("engine %s of %s has no samples", reading.engine, self.config.name)
        labels = self._labels
        for window in total_windows(reading for reading in self.readings if reading.up):
            own = label_text([("window", format_duration(window.window_s))])
            lines.add("hitcurve_target_hit_rate_ratio", labels, window.hit_rate, own)
        lines.add("hitcurve_up", labels, int(fetched.failure is None))
        lines.add("hitcurve_scrape_duration_seconds", labels, fetched.duration_s)
        lines.add("hitcurve_scrape_body_bytes", labels, None if fetched.body is None else len(fetched.body))
        for reason, own in _REASON_LABELS.items():
            lines.add("hitcurve_scrape_errors_total", labels, self._errors[reason], own)
        lines.add("hitcurve_scrapes_skipped_total", labels, self.skipped)
        lines.add("hitcurve_last_success_timestamp_seconds", labels, self.last_success_s)
        for flag, own in _FLAG_LABELS.items():
            lines.add("hitcurve_flags_total", labels, self._flags[flag], own)
        lines.add("hitcurve_engines_over_limit", labels, self._over_limit)
        return lines

    def _engine_lines(self, reading: Reading) -> Lines:
        known = reading.engine not in self._without_tokens
        history = self.curves.get(reading.engine)
        began_s = None if history is None else history.began_s
        return engine_lines(
            reading, self.config.name, self.config.labels, tokens_known=known, watched_since_s=began_s
        )

    def _tell_changes(self, fetched: Fetched) -> None:
        before = None if self.last is None else self.last.failure
        if fetched.failure is not None and fetched.failure != before:
            _LOG.warning("%s: %s (%s)", self.config.name, fetched.failure, fetched.detail)
        elif fetched.failure is None and before is not None:
            _LOG.info("%s: up again", self.config.name)
