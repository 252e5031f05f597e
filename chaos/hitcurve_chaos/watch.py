"""Watching a run: looks at the curve and at the requests, keeps what it sees, and waits for conditions."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from hitcurve.reading import Reading, as_json
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.curve import Curve, point_of
from hitcurve_chaos.observe import CurveSource
from hitcurve_chaos.request_tail import RequestTail

__all__ = ["READINGS_FILE", "Watch"]

READINGS_FILE = "readings.jsonl"


class Watch:
    """Collects readings of one target (curve, ``readings.jsonl``) and requests (``requests.jsonl``)."""

    def __init__(self, source: CurveSource, folder: Path, clock: Clock, *, every_s: float = 0.2) -> None:
        self.source = source
        self.curve = Curve()
        self.requests = RequestTail(folder)
        self.clock = clock
        self._readings = folder / READINGS_FILE
        self._every_s = every_s

    def look(self) -> None:
        """Take in what is new, and all that was scraped while nobody looked."""
        self._take(self.source.look())
        while self.source.pending:
            self._take(self.source.look())
        self.requests.follow()

    def _take(self, new: Sequence[Reading]) -> None:
        if new:
            self.curve.add(point_of(new))
            lines = "".join(json.dumps(as_json(reading)) + "\n" for reading in new)
            with self._readings.open("a", encoding="utf-8") as file:
                file.write(lines)

    def until(self, done: Callable[[], bool], within_s: float, *, tick: Callable[[], None] | None = None) -> bool:
        """Look again and again until ``done``; False when it was not within ``within_s`` seconds.

        ``tick`` is called after every look: a fault that acts in steps takes its next one there.
        """
        deadline_s = self.clock.now() + within_s
        while True:
            self.look()
            if done():
                return True
            if tick is not None:
                tick()
            left_s = deadline_s - self.clock.now()
            if left_s <= 0:
                return False
            self.clock.sleep(min(self._every_s, left_s))

    def for_seconds(self, seconds: float, *, tick: Callable[[], None] | None = None) -> None:
        """Keep looking for so long."""
        self.until(lambda: False, seconds, tick=tick)
