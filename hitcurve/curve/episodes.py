"""Incidents on the curve: onset, depth, recovery, tokens recomputed because of them."""

from dataclasses import dataclass, replace

from hitcurve.curve.batch import Batch, Sum
from hitcurve.reading import Cause

__all__ = ["Episode", "EpisodeLog"]

_MOST_EPISODES = 1000


@dataclass(frozen=True, slots=True)
class Episode:
    """One incident. Times in Unix seconds; ``to_s`` is ``None`` while it lasts."""

    from_s: float
    to_s: float | None
    depth: float | None
    """Rate before minus the lowest rate of a scrape since; ``None`` where no level was known before."""
    lost_tokens: float | None
    """Tokens recomputed beyond what the level before would have cost; ``None`` where that is unknown."""
    cause: Cause


class EpisodeLog:
    """Opens, follows and closes episodes, the newest 1,000."""

    def __init__(self) -> None:
        self._closed: list[Episode] = []
        self._open: Episode | None = None
        self._level: float | None = None

    @property
    def all(self) -> tuple[Episode, ...]:
        return (*self._closed, self._open) if self._open else tuple(self._closed)

    def begin(self, from_s: float, level: float | None, cause: Cause, proof: Sum | None = None) -> None:
        """Open one; an open one goes on. ``proof`` is the traffic from the onset to the scrape that proved it."""
        if self._open is not None:
            if cause in ("reset", "restart"):
                self._open = replace(self._open, cause=cause)
            return
        self._level = level
        if level is None:
            self._open = Episode(from_s=from_s, to_s=None, depth=None, lost_tokens=None, cause=cause)
            return
        lost = max(0.0, level * proof.queries - proof.hits) if proof else 0.0
        depth = max(0.0, level - proof.rate) if proof and proof.rate is not None else 0.0
        self._open = Episode(from_s=from_s, to_s=None, depth=depth, lost_tokens=lost, cause=cause)

    def name(self, cause: Cause | None) -> None:
        """Give the open one a cause where it had none."""
        if self._open is not None and self._open.cause == "unknown" and cause is not None:
            self._open = replace(self._open, cause=cause)

    def observe(self, batch: Batch) -> None:
        if self._open is None or self._level is None:
            return
        lost = self._open.lost_tokens
        if batch.volume_known and lost is not None:
            lost += max(0.0, self._level * batch.queries - batch.hits)
        depth = max(self._open.depth or 0.0, self._level - batch.rate)
        self._open = replace(self._open, depth=depth, lost_tokens=lost)

    def end(self, at_s: float) -> None:
        if self._open is None:
            return
        self._closed.append(replace(self._open, to_s=at_s))
        del self._closed[:-_MOST_EPISODES]
        self._open = None
