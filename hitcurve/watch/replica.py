"""What ``watch`` knows of one replica after a round: its newest reading and the curve so far."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hitcurve.printable import printable
from hitcurve.reading import UNHEALTHY_STATES, Interval, Reading, as_json

__all__ = ["CURVE_POINTS", "Curves", "Replica", "Round", "as_document", "unhealthy"]

CURVE_POINTS: Final = 240
"""Intervals kept for the curve: 20 minutes of 5 seconds."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One engine: ``name`` is what the screen shows and unique in a round, ``curve`` the latest intervals."""

    name: str
    reading: Reading
    curve: Sequence[Interval] = ()
    evictions_per_s: float | None = None
    """Blocks evicted per second between the two newest readings; ``None`` where the engine does not count them."""
    first_token_s: Mapping[str, float] = field(default_factory=dict)
    """Mean time to the first token in the newest interval, by what was found of a prompt; see ``first_tokens``."""

    @property
    def hit_rate(self) -> float | None:
        """Rate-based hit rate over the shortest window."""
        return self.reading.windows[0].hit_rate if self.reading.windows else None

    @property
    def request_window_hit_rate(self) -> float | None:
        """Hit rate over the last N requests."""
        window = self.reading.request_window
        return None if window is None else window.hit_rate

    @property
    def query_tokens_per_s(self) -> float | None:
        """Tokens looked up per second in the newest interval."""
        interval = self.reading.interval
        if interval is None or interval.queries is None or interval.to_s <= interval.from_s:
            return None
        return interval.queries / (interval.to_s - interval.from_s)


@dataclass(frozen=True, slots=True)
class Round:
    """All replicas at one moment (Unix seconds), ordered by name."""

    at_s: float
    replicas: tuple[Replica, ...]


def unhealthy(reading: Reading) -> bool:
    """Whether a replica needs a look: not reachable, or the state of its curve is unhealthy or unknown."""
    return not reading.up or reading.state is None or reading.state.state in UNHEALTHY_STATES


def as_document(round_: Round) -> dict[str, Any]:
    """A round as JSON values; the engines are those of the exporter's ``GET /api/v1/engines``."""
    return {
        "version": 1,
        "at_s": round_.at_s,
        "engines": [as_json(replica.reading) for replica in round_.replicas],
    }


@dataclass(slots=True)
class _Followed:
    """One replica over rounds."""

    curve: deque[Interval]
    last: Reading | None = None
    evictions_per_s: float | None = None

    def add(self, reading: Reading) -> None:
        """Take a reading; one that is not newer than the last changes nothing."""
        interval = reading.interval
        if interval is not None and (not self.curve or self.curve[-1].to_s < interval.to_s):
            self.curve.append(interval)
        if self.last is None or reading.at_s > self.last.at_s:
            self.evictions_per_s = _evictions_per_s(self.last, reading)
            self.last = reading


class Curves:
    """The latest intervals of every replica, over rounds."""

    def __init__(self) -> None:
        self._followed: dict[tuple[str, str], _Followed] = {}

    def seed(self, reading: Reading, intervals: Iterable[Interval]) -> None:
        """Begin a replica's curve with what somebody else has followed."""
        self._followed[_key(reading)] = _Followed(deque(intervals, maxlen=CURVE_POINTS))

    def knows(self, reading: Reading) -> bool:
        """Whether the replica has a curve."""
        return _key(reading) in self._followed

    def replicas(
        self, readings: Iterable[Reading], first_tokens: Mapping[str, Mapping[str, float]] | None = None
    ) -> tuple[Replica, ...]:
        """Take the readings of a round; a replica that is not among them is forgotten.

        ``first_tokens`` are the times to the first token by target.
        """
        kept = {}
        for reading in readings:
            followed = self._followed.get(_key(reading)) or _Followed(deque(maxlen=CURVE_POINTS))
            followed.add(reading)
            kept[_key(reading)] = (reading, followed)
        self._followed = {key: followed for key, (_, followed) in kept.items()}
        names = _names(kept)
        found = [
            Replica(
                names[key],
                reading,
                tuple(followed.curve),
                followed.evictions_per_s,
                (first_tokens or {}).get(reading.target, {}),
            )
            for key, (reading, followed) in kept.items()
        ]
        return tuple(sorted(found, key=lambda replica: replica.name))


def _names(keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Target without its scheme, and the engine where the target has several."""
    engines = Counter(target for target, _ in keys)
    short = {
        key: printable(key[0].split("://", 1)[-1] + (f" {key[1]}" if engines[key[0]] > 1 else "")) for key in keys
    }
    if len(set(short.values())) == len(short):
        return short
    return {key: printable(" ".join(key).strip()) for key in keys}


def _key(reading: Reading) -> tuple[str, str]:
    return reading.target, reading.engine


def _evictions_per_s(last: Reading | None, reading: Reading) -> float | None:
    if last is None:
        return None
    before, after = last.evicted_blocks_total, reading.evicted_blocks_total
    return None if before is None or after is None else (after - before) / (reading.at_s - last.at_s)
