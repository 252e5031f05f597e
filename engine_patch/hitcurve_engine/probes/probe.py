"""What hangs on a watched cache manager and its block pools: the queue of events, and what the hooks append to it.

Only the engine's thread appends and remembers; the recorder's takes ``events`` and sets ``holds_requests``.

Most of what a call costs here is code and data that the model has driven out of the processor's caches since the
last one. Therefore one call does what one hook needs, and what an allocation takes and stores becomes one event.
"""

from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from hitcurve_engine.probes.events import (
    ADAPTER,
    ALLOCATED,
    EVICT_BLOCKS,
    GAP_EVENT,
    LOOKUP,
    RESET,
    STORED,
    TAKEN,
    RawEvent,
)
from hitcurve_engine.probes.request_glance import end_reader, is_isolated, skips_lookup

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
        "end_of",
        "events",
        "holds_requests",
        "limit",
        "pending",
        "shared",
        "start",
        "started",
        "stored",
        "taken",
        "taken_count",
        "tells_found",
    )

    def __init__(self, limit: int, start: Callable[[], None], *, copies: bool) -> None:
        self.events: deque[RawEvent] = deque()
        self.limit = limit
        self.copies = copies
        """Whether the engine changes a request's list of blocks in place; else a reference to it will do."""
        self.holds_requests = True
        """Whether events bring along any request, for its tokens; else those that something isolates."""
        self.tells_found = False
        """Whether a lookup must tell which blocks it found: where they are not the leading ones of the
        request, and once events were lost."""
        self.dropped = 0
        self.asked: Any = None
        """The request of the last lookup, until it is scheduled."""
        self.shared: Any = None
        """The same if its event had no need of the request."""
        self.current: Any = None
        """The request that blocks are being allocated for."""
        self.pending = False
        """Whether the end of an allocation may have something to tell."""
        self.taken: Any = None
        """Blocks that the allocation under way was handed, and what it stored: one event tells both at its end."""
        self.taken_count = 0
        self.stored: Any = None
        self.end_of: Callable[[Any], RawEvent] = self._first_end
        self.start = start
        self.started = False

    def looked_up(self, manager: Any, request: Any, result: Any) -> None:
        """A waiting request was looked up."""
        if not self.started:
            self.start()
        self.asked = request
        self.pending = True
        if len(self.events) >= self.limit:
            self.overflow()
            return
        try:
            hashes = request.block_hashes
        except AttributeError:
            hashes = manager.req_to_block_hashes.get(request.request_id)
        held = request if self.holds_requests or is_isolated(request) else None
        self.shared = request if held is None else None
        hit = result[1]
        skipped = not hit and skips_lookup(request)
        found = result if self.tells_found else None
        self.events.append(
            (LOOKUP, monotonic(), request.request_id, request.num_tokens, hit, skipped, found, hashes, held)
        )

    def allocated(self, request: Any, result: Any, admitted: Any, external: Any) -> None:
        """An allocation for the request ended: tell what was gathered, and whether its lookup counts now."""
        taken, stored = self.taken, self.stored
        self.taken = self.stored = None
        scheduled = self.asked is request and result is not None
        if scheduled:
            self.asked = None
        self.pending = self.asked is not None
        if not scheduled and taken is None and stored is None:
            return
        if len(self.events) >= self.limit:
            self.overflow()
            return
        held = None
        if stored is not None and self.shared is not request and (self.holds_requests or is_isolated(request)):
            held = request
        name, count = request.request_id, self.taken_count
        self.events.append(
            (ALLOCATED, monotonic(), name, taken, count, stored, scheduled, admitted, external, held)
        )

    def handed_out(self, blocks: Any) -> None:
        """The pool handed out blocks."""
        request = self.current
        if request is not None and self.taken is None and self.stored is None and not self.copies:
            self.taken = blocks
            self.taken_count = len(blocks)
            self.pending = True
            return
        self._part()
        name = None if request is None else request.request_id
        self._append((TAKEN, monotonic(), blocks, len(blocks), name))

    def filled(self, request: Any, group: int, first: int, end: int, hashes: Any, blocks: Any, mask: Any) -> None:
        """Blocks of a request got content; ``hashes`` are the request's own where they are ``None``."""
        if first >= end:
            return
        if hashes is None:
            hashes = request.block_hashes
        if self.current is request and self.stored is None and not self.copies:
            self.stored = (group, first, end, hashes, blocks, 0, mask)
            self.pending = True
            return
        self._part()
        offset = 0
        if self.copies:
            blocks, offset = blocks[first:end], first
        held = request if self.holds_requests or is_isolated(request) else None
        stored = (group, first, end, hashes, blocks, offset, mask)
        self._append((STORED, monotonic(), request.request_id, stored, held))

    def freed(self, request: Any) -> None:
        """A request gave its blocks back: it is over, or preempted."""
        if len(self.events) < self.limit:
            self.events.append(self.end_of(request))
        else:
            self.overflow()

    def reset(self, answer: Any) -> None:
        """Somebody asked to clear the cache."""
        if not self.started:
            self.start()
        self._append((RESET, monotonic(), answer))

    def evicted(self, block_ids: Iterable[int]) -> None:
        """Blocks lost their content, for no request."""
        self._append((EVICT_BLOCKS, monotonic(), tuple(block_ids)))

    def adapter_loaded(self, lora: Any) -> None:
        """The engine loaded an adapter."""
        self._append((ADAPTER, monotonic(), lora))

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

    def _append(self, event: RawEvent) -> None:
        if len(self.events) < self.limit:
            self.events.append(event)
        else:
            self.overflow()

    def _part(self) -> None:
        """Tell what was gathered so far, before something that has an event of its own."""
        if self.taken is not None or self.stored is not None:
            self.allocated(self.current, None, None, None)

    def _first_end(self, request: Any) -> RawEvent:
        self.end_of = end_reader(request)
        return self.end_of(request)
