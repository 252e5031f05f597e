"""Entries at breakpoints, with lifetimes that every use renews."""

from collections.abc import Hashable
from dataclasses import dataclass

from hitcurve_simulator.explicit.usage import Usage
from hitcurve_simulator.explicit.wish import LIFETIMES_S, Prompt

__all__ = ["ExplicitCache"]


@dataclass(slots=True)
class _Entry:
    lifetime_s: float
    dies_at: float


class ExplicitCache:
    """One organisation's cache; nothing limits its size.

    A lookup starts at each breakpoint and goes back over ``lookback`` content blocks; the longest entry found is
    read. A prefix shorter than ``minimum_tokens`` is not cached and no error. The caller gives the time in
    seconds, which never goes back.
    """

    def __init__(self, minimum_tokens: int = 1024, lookback: int | None = 20) -> None:
        """``lookback`` None: all blocks before a breakpoint."""
        self.minimum_tokens = minimum_tokens
        self.lookback = lookback
        self.expired_tokens = 0
        """Tokens written anew that were cached before, since start."""
        self._entries: dict[Hashable, _Entry] = {}

    def request(self, prompt: Prompt, now: float) -> Usage:
        """Serve one request."""
        read_blocks = self._longest_live(prompt, now)
        read = prompt.ends[read_blocks - 1] if read_blocks else 0
        if read_blocks:
            self._renew(prompt.keys[read_blocks - 1], now)
        done, written = read, {"5m": 0, "1h": 0}
        for each in prompt.breakpoints:
            end, key = prompt.ends[each.block], prompt.keys[each.block]
            if end < self.minimum_tokens:
                continue
            if end > done:
                self.expired_tokens += end - done if key in self._entries else 0
                written[each.lifetime] += end - done
                done = end
            self._write(key, LIFETIMES_S[each.lifetime], now)
        return Usage(read, written["5m"], written["1h"], prompt.tokens - done)

    def _longest_live(self, prompt: Prompt, now: float) -> int:
        """Content blocks of the longest entry that a breakpoint of the prompt finds."""
        for each in reversed(prompt.breakpoints):
            last = 0 if self.lookback is None else max(each.block + 1 - self.lookback, 0)
            for block in range(each.block, last - 1, -1):
                entry = self._entries.get(prompt.keys[block])
                if entry is not None and now < entry.dies_at:
                    return block + 1
        return 0

    def _renew(self, key: Hashable, now: float) -> None:
        entry = self._entries[key]
        entry.dies_at = now + entry.lifetime_s

    def _write(self, key: Hashable, lifetime_s: float, now: float) -> None:
        """An entry that lives is renewed and keeps the longer lifetime."""
        entry = self._entries.get(key)
        if entry is not None and now < entry.dies_at:
            entry.lifetime_s = max(entry.lifetime_s, lifetime_s)
            self._renew(key, now)
        else:
            self._entries[key] = _Entry(lifetime_s, now + lifetime_s)
