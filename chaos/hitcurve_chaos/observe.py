"""Where readings come from: the exporter that watches the target, or the engine's own /metrics."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hitcurve.curve import CurveClassifier, CurveConfig
from hitcurve.monitor import TargetMonitor
from hitcurve.reading import CutKind, Reading, reading_from_json
from hitcurve_chaos.calls import NoAnswer, Transport
from hitcurve_chaos.engine_page import scrape_engine
from hitcurve_chaos.targets import Target

__all__ = ["CurveSource", "ExporterSource", "ScrapeSource"]

_TIMEOUT_S = 5.0
_WINDOWS_S = (5.0, 30.0, 300.0)
_OWN_SWINGS = 8


class CurveSource(Protocol):
    """A stream of readings of one target."""

    @property
    def trouble(self) -> str | None:
        """Why the last look brought nothing; ``None`` when it worked."""

    def look(self) -> Sequence[Reading]:
        """Readings not returned before, all of one scrape; empty where there is nothing new. Never raises."""

    @property
    def pending(self) -> bool:
        """Whether scrapes that were made already wait to be handed out."""

    def mark(self, kind: CutKind, at_s: float) -> bool:
        """Tell the watcher of a cut that engines do not report (a reset); False where it did not take it."""


class ExporterSource:
    """Readings of the target from an exporter's ``GET /api/v1/engines``."""

    def __init__(self, target: Target, transport: Transport) -> None:
        assert target.exporter is not None
        self._exporter = target.exporter
        self._names = (
            {target.exporter_target}
            if target.exporter_target
            else {target.name, target.engine, f"{target.engine}/metrics"}
        )
        self._mark_name = target.exporter_target or target.name
        self._transport = transport
        self._seen: dict[str, float] = {}
        self.trouble: str | None = None

    def look(self) -> Sequence[Reading]:
        readings = self._of_target()
        new = [reading for reading in readings if reading.at_s > self._seen.get(reading.engine, 0.0)]
        for reading in new:
            self._seen[reading.engine] = reading.at_s
            self._mark_name = reading.target
        return new

    @property
    def pending(self) -> bool:
        """Every look asks anew."""
        return False

    def mark(self, kind: CutKind, at_s: float) -> bool:
        body = {"target": self._mark_name, "kind": kind, "at_s": at_s}
        try:
            answer = self._transport.send(
                "POST", f"{self._exporter}/api/v1/marks", json_body=body, timeout_s=_TIMEOUT_S
            )
        except NoAnswer:
            return False
        return 200 <= answer.status < 300

    def _of_target(self) -> list[Reading]:
        url = f"{self._exporter}/api/v1/engines"
        try:
            answer = self._transport.send("GET", url, timeout_s=_TIMEOUT_S)
        except NoAnswer as error:
            self.trouble = f"the exporter does not answer ({error})"
            return []
        values = answer.json()
        if answer.status != 200 or not isinstance(values, dict) or not isinstance(values.get("engines"), list):
            self.trouble = f"{url} answers {answer.status} and no list of engines; is it a hitcurve exporter?"
            return []
        readings = [self._reading(entry) for entry in values["engines"] if entry.get("target") in self._names]
        if not readings:
            known = sorted({str(entry.get("target")) for entry in values["engines"]})
            self.trouble = f"the exporter has no target {' or '.join(sorted(self._names))}, only {known}"
            return []
        self.trouble = next((f"the scrape failed: {r.failure}" for r in readings if not r.up), None)
        return readings

    def _reading(self, entry: Mapping[str, Any]) -> Reading:
        return reading_from_json(entry)


def _classifier() -> CurveClassifier:
    """A suite hurts the cache again and again, which must not read as swings of the engine's own."""
    return CurveClassifier(CurveConfig(swing_turns=_OWN_SWINGS, swing_turns_signalled=_OWN_SWINGS))


class ScrapeSource:
    """Readings from the engine's own /metrics, for targets without an exporter."""

    def __init__(self, target: Target) -> None:
        self._engine = target.engine
        self._monitor = TargetMonitor(target.name, windows_s=_WINDOWS_S, classifier_factory=_classifier)
        self._lock = threading.Lock()
        self.trouble: str | None = None

    def look(self) -> Sequence[Reading]:
        page = scrape_engine(self._engine)
        with self._lock:
            readings = self._monitor.observe(page)
        failures = (reading.failure for reading in readings if not reading.up)
        self.trouble = next((f"{self._engine}/metrics brings nothing: {failure}" for failure in failures), None)
        return readings

    @property
    def pending(self) -> bool:
        """Every look asks anew."""
        return False

    def mark(self, kind: CutKind, at_s: float) -> bool:
        with self._lock:
            self._monitor.mark(kind, at_s)
        return True
