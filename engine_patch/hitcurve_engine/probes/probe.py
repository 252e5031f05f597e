"""What hangs on a watched cache manager and its block pools: the queue that its hooks append to."""

from collections import deque
from collections.abc import Callable
from typing import Any

from hitcurve_engine.probes.events import GAP_EVENT, RawEvent

__all__ = ["PROBE_ATTRIBUTE", "Probe"]

PROBE_ATTRIBUTE = "_hitcurve_probe"
"""Set on managers and pools that are watched; ``None`` on their classes, hence on every other instance."""


class Probe:
    """The queue of one manager, and what its hooks must remember from one call to the next.

    ``start`` is called by the first lookup in a process (again after a fork); it brings up whoever empties the
    queue. Of ``limit`` events more, ``dropped`` counts every one that was not taken up.
    """

    __slots__ = (
        "asked",
        "copies",
        "current",
        "dropped",
        "events",
        "hash_block_size",
        "limit",
        "start",
        "started",
        "tells_found",
    )

    def __init__(self, limit: int, hash_block_size: int, start: Callable[[], None], *, copies: bool) -> None:
        self.events: deque[RawEvent] = deque()
        self.limit = limit
        self.hash_block_size = hash_block_size
        self.copies = copies
        """Whether the engine changes a request's list of blocks in place; else a reference to it will do."""
        self.tells_found = False
        """Whether a lookup must tell which blocks it found: where they are not the leading ones of the
        request, and once events were lost."""
        self.dropped = 0
        self.asked: Any = None
        """The request of the last lookup, until it is scheduled."""
        self.current: Any = None
        """The request that blocks are being allocated for."""
        self.start = start
        self.started = False

    def overflow(self) -> None:
        """The queue is full: drop this event, and leave a mark where events are missing."""
        self.dropped += 1
        self.tells_found = True
        try:
            if self.events[-1] is not GAP_EVENT:
                self.events[-1] = GAP_EVENT
                self.dropped += 1
        except IndexError:
            self.events.append(GAP_EVENT)
