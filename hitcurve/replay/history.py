"""What a replay keeps of one target, and of the fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hitcurve.monitor import total_interval, total_windows
from hitcurve.reading import UNHEALTHY_STATES, CurveState, Cut, Interval, Reading, StateName, WindowRate

__all__ = ["EngineHistory", "FailedScrape", "StateHistory", "TargetHistory", "TargetWindow"]

_WORST_FIRST: Final[tuple[StateName, ...]] = (
    "stalled",
    "collapsed",
    "oscillating",
    "degraded",
    "low",
    "cold",
    "warming",
    "steady",
    "no_traffic",
)


@dataclass(frozen=True, slots=True)
class FailedScrape:
    """A scrape that brought no page."""

    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class TargetWindow:
    """A rate-based hit rate of a target at a scrape; no numbers where the scrape failed."""

    target: str
    at_s: float
    window_s: float
    rate: WindowRate | None


@dataclass(slots=True)
class StateHistory:
    """States as they followed each other. ``last`` is ``None`` while scrapes tell nothing."""

    last: CurveState | None = None
    transitions: list[tuple[float, CurveState]] = field(default_factory=list)

    def add(self, at_s: float, state: CurveState) -> None:
        """Keep ``state``; it is a transition where its name or cause is new."""
        before = self.transitions[-1][1] if self.transitions else None
        if before is None or (before.state, before.cause) != (state.state, state.cause):
            self.transitions.append((at_s, state))
        self.last = state

    def lose(self) -> None:
        """A scrape brought nothing."""
        self.last = None


@dataclass(slots=True)
class EngineHistory:
    """One engine of a target."""

    labels: Mapping[str, str]
    intervals: list[Interval] = field(default_factory=list)
    states: StateHistory = field(default_factory=StateHistory)
    odd: tuple[str, ...] = ()
    """Flags of scrapes that brought no interval; the next one spans them."""


class TargetHistory:
    """Everything readings said about one target, in order."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.engines: dict[str, EngineHistory] = {}
        self.intervals: list[Interval] = []
        self.states = StateHistory()
        self.cuts: list[Cut] = []
        self.failed: list[FailedScrape] = []
        self.windows: list[TargetWindow] = []

    def add(self, readings: tuple[Reading, ...], windows_s: tuple[float, ...]) -> Interval | None:
        """Take the readings of one scrape; the interval of the whole target, where there is one."""
        at_s, up = readings[0].at_s, readings[0].up
        if not up:
            self.failed.append(FailedScrape(at_s, readings[0].failure or "unknown"))
        for reading in readings:
            self._add_engine(reading)
        parts = [part for reading in readings if (part := self._interval(reading)) is not None]
        for gone in self.engines.keys() - {reading.engine for reading in readings}:
            self.engines[gone].states.lose()
        rates = {rate.window_s: rate for rate in total_windows(readings)}
        self.windows += [TargetWindow(self.target, at_s, length, rates.get(length)) for length in windows_s]
        state = _worst(readings)
        if state is None:
            self.states.lose()
        else:
            self.states.add(at_s, state)
        interval = total_interval(parts)
        if interval is not None:
            # An engine that was missing for a scrape brings older traffic; the target was read all the while.
            interval = replace(interval, from_s=max(part.from_s for part in parts))
            self.intervals.append(interval)
        return interval

    def _add_engine(self, reading: Reading) -> None:
        for cut in reading.cuts:
            if cut not in self.cuts:
                self.cuts.append(cut)
        if not reading.engine:
            return
        engine = self.engines.setdefault(reading.engine, EngineHistory(reading.labels))
        if reading.up:
            engine.labels = reading.labels
        if not reading.up or reading.state is None:
            engine.states.lose()
        else:
            engine.states.add(reading.at_s, reading.state)

    def _interval(self, reading: Reading) -> Interval | None:
        """The interval of a reading, with the flags of the scrapes before it that brought none."""
        engine = self.engines.get(reading.engine)
        if engine is None:
            return None
        if reading.interval is None:
            engine.odd = tuple(dict.fromkeys((*engine.odd, *reading.flags)))
            return None
        interval = replace(reading.interval, flags=tuple(dict.fromkeys((*engine.odd, *reading.interval.flags))))
        engine.odd = ()
        engine.intervals.append(interval)
        return interval


def _worst(readings: tuple[Reading, ...]) -> CurveState | None:
    """The worst state; ``None`` where one is unknown, unless another one is known to be unhealthy."""
    known = [reading.state for reading in readings if reading.up and reading.state is not None]
    worst = min(known, key=lambda state: _WORST_FIRST.index(state.state), default=None)
    if worst is not None and worst.state not in UNHEALTHY_STATES and len(known) < len(readings):
        return None
    return worst
