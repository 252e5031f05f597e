"""Silence: is nothing looked up because nobody asks, or although requests wait?"""

from hitcurve.curve.config import CurveConfig

__all__ = ["Silence"]

_GAP_DECAY = 0.99
_FEW_GAPS = 4.0
_EMPTY_SCRAPES = 2


class Silence:
    """Follows the gaps between scrapes with lookups; times in seconds."""

    def __init__(self, config: CurveConfig) -> None:
        self._config = config
        self._last_moved_s: float | None = None
        self._watched_from_s: float | None = None
        self._longest_gap_s = 0.0
        self._gaps = 0
        self._empty = 0
        self._waiting = 0

    def observe(self, from_s: float, to_s: float, moved: bool, waiting: bool) -> None:
        """One good interval; ``moved`` says whether anything was looked up in it."""
        if self._watched_from_s is None:
            self._watched_from_s = from_s
        if not moved:
            self._empty += 1
            self._waiting = self._waiting + 1 if waiting else 0
            return
        gap = to_s - (from_s if self._last_moved_s is None else self._last_moved_s)
        if gap < self._config.idle_after_s:
            self._longest_gap_s = max(gap, self._longest_gap_s * _GAP_DECAY)
            self._gaps += 1
        self._last_moved_s = to_s
        self._empty = self._waiting = 0

    def length_s(self, at_s: float) -> float:
        """How long nothing has been looked up."""
        since = self._watched_from_s if self._last_moved_s is None else self._last_moved_s
        return 0.0 if since is None or self._empty == 0 else max(at_s - since, 0.0)

    def idle(self, at_s: float) -> bool:
        """Nothing was looked up for far longer than between usual requests, or ever, and nobody waits for it."""
        if self._empty == 0 or self._waiting > 0:
            return False
        silence = self.length_s(at_s)
        if self._last_moved_s is None or silence >= self._config.idle_after_s:
            return True
        usual = self._longest_gap_s * (1.0 + _FEW_GAPS / max(self._gaps, 1))
        return self._empty >= _EMPTY_SCRAPES and silence > self._config.idle_gaps * usual

    def stalled(self, at_s: float) -> bool:
        """Requests wait while the counters stand still."""
        return (
            self._waiting >= self._config.stalled_scrapes and self.length_s(at_s) >= self._config.stalled_after_s
        )
