"""The last hour of one engine's curve, small enough for a thousand engines."""

import math
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hitcurve.curve import Episode
from hitcurve.reading import STATES, CurveState, Cut, Reading, StateName

__all__ = ["KEPT_S", "CurveHistory", "CurvePoint"]

KEPT_S: Final = 3_600.0
_MOST_POINTS: Final = 4_096
_MOST_EVENTS: Final = 128
_WIDTH: Final = 6
_NO_STATE: Final = -1.0


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One interval between two good scrapes, and the state the curve was in at its end."""

    from_s: float
    to_s: float
    queries: float | None
    hits: float | None
    hit_rate: float | None
    state: StateName | None


class CurveHistory:
    """Takes readings in order of time. Keeps an hour, and not more than 4,096 points and 128 events of a kind."""

    def __init__(self) -> None:
        self.began_s: float | None = None
        """Time of the first good scrape."""
        self.cuts: deque[Cut] = deque(maxlen=_MOST_EVENTS)
        self.states: deque[tuple[float, CurveState]] = deque(maxlen=_MOST_EVENTS)
        """State or cause changed, at the scrape that showed it."""
        self.failed: deque[tuple[float, str]] = deque(maxlen=_MOST_EVENTS)
        """Scrapes that brought nothing, with the reason."""
        self.episodes: tuple[Episode, ...] = ()
        self._numbers = array("d")

    def add(self, reading: Reading, episodes: tuple[Episode, ...]) -> None:
        """Take the newest reading and the incidents so far."""
        self.episodes = episodes
        if reading.up and self.began_s is None:
            self.began_s = reading.at_s
        self.cuts.extend(reading.cuts)
        state = reading.state
        if state is not None and (not self.states or _differ(self.states[-1][1], state)):
            self.states.append((reading.at_s, state))
        if not reading.up:
            self.failed.append((reading.at_s, reading.failure or "unknown"))
        interval = reading.interval
        if interval is not None:
            number = _NO_STATE if state is None else float(STATES.index(state.state))
            volumes = (interval.queries, interval.hits, interval.hit_rate)
            self._numbers.extend((interval.from_s, interval.to_s, *map(_number, volumes), number))
        self._forget(reading.at_s - KEPT_S)

    def points(self, since_s: float) -> Iterator[CurvePoint]:
        """Intervals that end after ``since_s``, in order."""
        for start in range(0, len(self._numbers), _WIDTH):
            from_s, to_s, queries, hits, rate, state = self._numbers[start : start + _WIDTH]
            if to_s > since_s:
                name = None if state == _NO_STATE else STATES[int(state)]
                yield CurvePoint(from_s, to_s, _value(queries), _value(hits), _value(rate), name)

    def _forget(self, before_s: float) -> None:
        """In one piece now and then, since each time moves everything that stays."""
        old = 0
        while old < len(self._numbers) and self._numbers[old + 1] <= before_s:
            old += _WIDTH
        most = max(0, len(self._numbers) - _MOST_POINTS * _WIDTH)
        if max(old, most) >= 16 * _WIDTH:
            del self._numbers[: max(old, most)]


def _differ(one: CurveState, other: CurveState) -> bool:
    return (one.state, one.cause) != (other.state, other.cause)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _value(number: float) -> float | None:
    return None if math.isnan(number) else number
