"""The ledger itself: events in, outcomes, evictions and totals out.

Plain Python without imports from outside the standard library, so that the plugin, the simulator and the tests
share it. It never asks a clock and never starts a thread; it is not thread-safe, one thread feeds it.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import takewhile

from hitcurve_engine.ledger.blocks import BlockTable, Origin
from hitcurve_engine.ledger.classify import classify
from hitcurve_engine.ledger.counting import admit, check_lookup, count_lookup, count_recompute, evictions_of
from hitcurve_engine.ledger.events import (
    Event,
    Evicted,
    ExternalLookup,
    Finished,
    Lookup,
    Preempted,
    Reset,
    Scheduled,
    Stored,
)
from hitcurve_engine.ledger.records import Eviction, Outcome, Regret, Totals
from hitcurve_engine.ledger.requests import OpenRequest, PendingLookup, outcome_of
from hitcurve_engine.ledger.stale_hits import stale_hits

__all__ = ["Ledger"]


class Ledger:
    """Follows the prefix cache of one engine from its events and says what became of every request.

    ``block_size``: tokens per block. ``pool_blocks``: usable blocks of the pool, ``None`` = unknown or unlimited.
    ``on_outcome``, ``on_eviction`` and ``on_regret`` are called with each record as it arises (``list.append``
    will do); without ``on_eviction`` no eviction record is built. ``withheld_blocks``: how many matched blocks the
    engine gives up by its rules (EAGLE and MTP: 1); more than that is an anomaly, ``None`` = never one.

    Memory is bounded by the pool: besides the cached keys (about 180 bytes each, 280 with content keys) the ledger
    remembers keys that are gone, at most ``ghosts_per_block`` times the pool (where that is unknown: times the
    most keys ever cached at once) and about 110 bytes each; the keys themselves come on top. Of older ones it
    remembers ``gone_keys``, in four bytes each, and no longer since when (``GoneKeys``). What is forgotten then,
    ``totals.ghosts_dropped`` counts, and a later miss of such a block reads ``compulsory`` although it once was
    cached. Of open requests it keeps ``most_open_requests``.

    Times are seconds of any clock that never goes back. Raises ValueError for negative token counts and for fewer
    keys than the query has full blocks; an event of a request it does not know is no error.
    """

    def __init__(
        self,
        block_size: int,
        *,
        pool_blocks: int | None = None,
        ghosts_per_block: float = 4.0,
        gone_keys: int = 0,
        withheld_blocks: int | None = 0,
        most_open_requests: int = 100_000,
        on_outcome: Callable[[Outcome], None] | None = None,
        on_eviction: Callable[[Eviction], None] | None = None,
        on_regret: Callable[[Regret], None] | None = None,
    ) -> None:
        if block_size < 1:
            raise ValueError(f"block_size is {block_size}; it must be at least 1")
        self.block_size = block_size
        self._totals = Totals()
        self._table = BlockTable(pool_blocks, ghosts_per_block, gone_keys)
        self._open: dict[str, OpenRequest] = {}
        self._withheld_blocks = withheld_blocks
        self._most_open_requests = most_open_requests
        self._on_outcome = on_outcome
        self._on_eviction = on_eviction
        self._on_regret = on_regret
        self._handlers: dict[type[Event], Callable[..., None]] = {
            Lookup: self.lookup,
            ExternalLookup: self.external_lookup,
            Scheduled: self.scheduled,
            Preempted: self.preempted,
            Finished: self.finished,
            Stored: self.stored,
            Evicted: self.evicted,
            Reset: self.reset,
        }

    @property
    def totals(self) -> Totals:
        """Sums since the ledger began; one object, updated in place."""
        self._totals.ghosts_dropped = self._table.ghosts_dropped
        return self._totals

    @property
    def cached_keys(self) -> int:
        """Distinct keys cached now."""
        return len(self._table.cached)

    @property
    def duplicate_blocks(self) -> int:
        """Blocks of the engine that hold a key which another one holds, too."""
        return self._table.duplicates

    @property
    def ghost_keys(self) -> int:
        """Keys remembered that are no longer cached."""
        return len(self._table.ghosts)

    @property
    def open_requests(self) -> int:
        """Requests seen and not finished."""
        return len(self._open)

    def feed(self, event: Event) -> None:
        """Take one event; the same as calling the method of its name with its fields."""
        self._handlers[type(event)](*event)

    def lookup(
        self,
        request_id: str,
        at_s: float,
        query_tokens: int,
        hit_tokens: int,
        keys: Sequence[Hashable] | None = None,
        content_keys: Sequence[Hashable] | None = None,
        adapter: str | None = None,
        salt: Hashable | None = None,
        image: Hashable | None = None,
        skipped: bool = False,
        adapter_load: int = 0,
        other_keys: Sequence[Sequence[Hashable]] = (),
        found: Sequence[Hashable] | None = None,
    ) -> None:
        """See ``events.Lookup``. The miss reasons are taken now, before the request's own allocation evicts."""
        if query_tokens < 0 or hit_tokens < 0:
            raise ValueError(f"lookup of {request_id}: {query_tokens} query and {hit_tokens} hit tokens")
        request = self._request(request_id)
        first_life = request.scheduled_at_s is None
        if first_life:
            request.lookups += 1
            if request.looked_up_at_s is None:
                request.looked_up_at_s = at_s
                request.prompt_tokens = query_tokens
                request.origin = Origin(adapter, salt, image, adapter_load)
                request.content_keys = content_keys
        if hit_tokens > query_tokens:
            request.note("hits_exceed_query")
            hit_tokens = query_tokens
        waiting = request.pending
        pending = PendingLookup(query_tokens, hit_tokens, keys, None, self._table.version, skipped, found=found)
        if first_life and not skipped and keys is not None:
            if waiting is not None and waiting.same_as(pending):
                pending.misses = waiting.misses
            else:
                origin, size = request.origin, self.block_size
                pending.misses = classify(
                    self._table, size, query_tokens, hit_tokens, keys, content_keys, origin, other_keys
                )
        if adapter_load and hit_tokens and keys is not None:
            pending.stale = stale_hits(self._table, self.block_size, keys, hit_tokens, request.origin)
            request.stored_as = pending.stale.stored_as
        request.pending = pending

    def external_lookup(
        self, request_id: str, at_s: float, query_tokens: int, hit_tokens: int, loads_later: bool = False
    ) -> None:
        """See ``events.ExternalLookup``. Repeated while the request waits, the last one counts."""
        if query_tokens < 0 or hit_tokens < 0:
            raise ValueError(f"external lookup of {request_id}: {query_tokens} query, {hit_tokens} hit tokens")
        request = self._request(request_id)
        already_loading = request.external_loads_later and request.external_hit_tokens
        if already_loading or request.scheduled_at_s is not None:
            return
        if hit_tokens > query_tokens:
            request.note("hits_exceed_query")
            hit_tokens = query_tokens
        request.external_query_tokens = query_tokens
        request.external_hit_tokens = hit_tokens
        request.external_loads_later = loads_later

    def scheduled(self, request_id: str, at_s: float, hit_tokens: int | None = None) -> None:
        """See ``events.Scheduled``. Without a lookup since the last time it changes nothing."""
        request = self._open.get(request_id)
        if request is None or request.pending is None:
            return
        lookup, request.pending = request.pending, None
        if hit_tokens is not None and not lookup.skipped:
            admit(request, lookup, hit_tokens)
        if request.scheduled_at_s is None:
            request.scheduled_at_s = at_s
            request.counted = lookup
            count_lookup(self._totals, request, lookup)
            check_lookup(self._totals, request, lookup, at_s, self._withheld_blocks, self._on_regret)
        elif not lookup.skipped:
            count_recompute(self._totals, request, lookup)
        if lookup.keys is not None:
            self._hold(request, lookup, at_s)

    def preempted(self, request_id: str, at_s: float) -> None:
        """See ``events.Preempted``. The outcome stays that of the first scheduling."""
        request = self._request(request_id)
        request.preemptions += 1
        self._totals.preemptions += 1
        request.release(at_s)

    def finished(
        self,
        request_id: str,
        at_s: float,
        prompt_tokens: int | None = None,
        cached_tokens: int | None = None,
        external_tokens: int | None = None,
    ) -> None:
        """See ``events.Finished``. Yields the outcome."""
        request = self._open.pop(request_id, None) or OpenRequest(request_id)
        request.release(at_s)
        if request.prompt_tokens is None:
            request.prompt_tokens = prompt_tokens
        if cached_tokens is not None and cached_tokens < 0:
            cached_tokens = None
        if cached_tokens is not None:
            if external_tokens is not None and external_tokens > cached_tokens:
                request.note("external_exceeds_cached")
            if request.prompt_tokens is not None and cached_tokens > request.prompt_tokens:
                request.note("cached_exceeds_prompt")
        if request.anomalies:
            self._totals.anomalies += 1
        if self._on_outcome is not None:
            self._on_outcome(outcome_of(request, at_s, cached_tokens))

    def stored(
        self,
        at_s: float,
        keys: Sequence[Hashable],
        request_id: str | None = None,
        first_index: int | None = None,
        content_keys: Sequence[Hashable] | None = None,
    ) -> None:
        """See ``events.Stored``."""
        request = self._open.get(request_id) if request_id is not None else None
        if content_keys is None and request is not None and first_index is not None:
            content_keys = (request.content_keys or ())[first_index : first_index + len(keys)]
        origin = _NO_ORIGIN if request is None else request.stored_as or request.origin
        blocks = self._table.store(keys, content_keys, first_index, origin, at_s)
        self._totals.stored_blocks += len(keys)
        if request is not None:
            request.held.extend(blocks)

    def evicted(self, at_s: float, keys: Sequence[Hashable], request_id: str | None = None) -> None:
        """See ``events.Evicted``. Yields one eviction record per block."""
        self._totals.evicted_blocks += len(keys)
        known = self._table.evict(keys, at_s)
        self._totals.unknown_evictions += len(keys) - len(known)
        if self._on_eviction is not None:
            for eviction in evictions_of(known, at_s, request_id):
                self._on_eviction(eviction)

    def reset(self, at_s: float, ok: bool = True) -> None:
        """See ``events.Reset``. A refused one clears nothing and is counted apart; no block is evicted by it."""
        if not ok:
            self._totals.refused_resets += 1
            return
        self._totals.resets += 1
        self._totals.cleared_blocks += self._table.reset(at_s)

    def contents_of(self, keys: Iterable[Hashable]) -> list[Hashable]:
        """Content keys of cached blocks, in order, up to the first that is not cached or was given none."""
        blocks = map(self._table.cached.get, keys)
        contents = (None if block is None else block.content for block in blocks)
        return list(takewhile(lambda content: content is not None, contents))

    def forget(self) -> None:
        """Events were lost: what is cached and who is under way can no longer be known. Ghosts and totals stay."""
        self._table.forget()
        self._totals.requests_dropped += len(self._open)
        self._open.clear()

    def _request(self, request_id: str) -> OpenRequest:
        request = self._open.get(request_id)
        if request is None:
            if len(self._open) >= self._most_open_requests:
                del self._open[next(iter(self._open))]
                self._totals.requests_dropped += 1
            request = self._open[request_id] = OpenRequest(request_id)
        return request

    def _hold(self, request: OpenRequest, lookup: PendingLookup, at_s: float) -> None:
        """The request now reads the blocks it found; unknown ones are entered, since the engine has them."""
        assert lookup.keys is not None
        found = lookup.keys[: -(-lookup.hit_tokens // self.block_size)] if lookup.found is None else lookup.found
        blocks = []
        for index, key in enumerate(found):
            block = self._table.cached.get(key)
            if block is None:
                request.note("hit_of_unknown_block")
                block = self._table.store([key], None, index, request.origin, at_s)[0]
            block.reuses += 1
            block.last_used_s = at_s
            blocks.append(block)
        request.held.extend(blocks)


_NO_ORIGIN = Origin()
