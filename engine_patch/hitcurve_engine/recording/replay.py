"""Plain events (see ``event_reader``), in order, into the ledger; and what the ledger yields, out to the sinks.

One thread feeds it. It knows for every block of the pool which key it holds, from the events alone, and never
looks into the engine's own tables, which change meanwhile.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import repeat
from typing import Any

from hitcurve_engine.ledger import Eviction, Ledger, Outcome
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import STORED, TAKEN
from hitcurve_engine.recording.adapter_loads import AdapterLoads
from hitcurve_engine.recording.block_content import BY_TOKENS, content_by_hashes
from hitcurve_engine.recording.block_reading import (
    Held,
    found_keys,
    hashes_of_blocks,
    heal,
    keys_of,
    other_keys,
    runs,
)
from hitcurve_engine.recording.event_reader import MOST_ERRORS, MOST_OPEN_REQUESTS, SCHEDULED, PlainEvent
from hitcurve_engine.recording.known_prefixes import KnownPrefixes
from hitcurve_engine.recording.open_request import OpenContext
from hitcurve_engine.recording.request_reading import NOTHING_READ, Adapter, RequestKeys
from hitcurve_engine.recording.sinks import CacheReset, EvictionBatch, FinishedRequest, Sink
from hitcurve_engine.recording.wanted_curve import wanted_curve
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

__all__ = ["Replay"]


class Replay:
    """The events of one cache manager. ``sinks`` may be filled before the first event."""

    def __init__(self, shape: CacheShape, settings: Settings, switch: Switch) -> None:
        self.sinks: list[Sink] = []
        self.has_connector = False
        """Whether every request that is looked up is also asked of a cache outside the engine."""
        self._shape = shape
        self._switch = switch
        self._isolated = settings.isolated
        self._content_keys = BY_TOKENS
        self._partly_found = shape.groups > 1 or not shape.full_attention
        self._block_keys: Held = {}
        self._open: dict[str, OpenContext] = {}
        self._prefixes: KnownPrefixes[list[Hashable]] = KnownPrefixes()
        self._adapter_loads = AdapterLoads()
        self.pool_curve = wanted_curve(shape, settings)
        """``None`` unless it is wanted and the engine has one kind of blocks."""
        self._outcomes: list[Outcome] = []
        self._evictions: list[Eviction] = []
        self.ledger = Ledger(
            shape.block_size,
            pool_blocks=shape.pool_blocks,
            ghosts_per_block=settings.ghosts_per_block,
            gone_keys=settings.gone_keys,
            withheld_blocks=shape.withheld_blocks,
            most_open_requests=MOST_OPEN_REQUESTS,
            on_outcome=self._outcomes.append,
            on_eviction=self._evictions.append,
            on_regret=lambda regret: self._tell("regretted", regret),
        )
        handlers = (self._lookup, self._allocated, self._taken, self._stored, self._freed, self._reset)
        more = (self._evict_blocks, self._gap, self._adapter, self._opened, self._hashing, self._scheduled)
        self._handlers: tuple[Callable[..., None], ...] = (*handlers, *more)

    def take(self, event: PlainEvent) -> None:
        """Take one event. An own error is counted and the event dropped; too many turn the patch off."""
        try:
            self._handlers[event[0]](*event[1:])
        except Exception as error:
            place = self._handlers[event[0]].__name__.strip("_")
            if self._switch.note(f"replay.{place}", error) >= MOST_ERRORS:
                self._switch.turn_off(f"{MOST_ERRORS} errors in replay.{place}")

    def _opened(self, request_id: str, adapter: Adapter | None, salt: Any, image: Any, image_keys: int) -> None:
        name = None if adapter is None else adapter[0]
        context = self._new_context(OpenContext(request_id, RequestKeys(name, salt, image, image_keys)))
        if adapter is not None:
            context.adapter_load = self._adapter_loads.of(adapter)

    def _hashing(self, algorithm: str | None, root: bytes | None) -> None:
        self._content_keys = content_by_hashes(algorithm, root, self._shape.hash_block_size) or BY_TOKENS

    def _lookup(
        self,
        at_s: float,
        request_id: str,
        tokens: int,
        hit: int,
        skipped: bool,
        prefix: Hashable | None,
        remembered: int,
        first_hash: int | None,
        hashes: Sequence[Hashable],
        first_block: int,
        block_tokens: Sequence[int] | None,
        found: Sequence[Sequence[int]] | None,
    ) -> None:
        context = self._context(request_id)
        context.asked_tokens = tokens
        if first_hash is None:
            context.keys = None
        else:
            known = None if prefix is None else self._prefixes.get(prefix)
            context.extend_hashes(first_hash, hashes, known)
            if remembered:
                beginning = context.hashes[:remembered]
                self._prefixes.add(beginning[-1], remembered, beginning)
            if tokens != context.keys_of_tokens:
                context.keys = keys_of(self._shape, tokens, context.hashes)
                context.keys_of_tokens = tokens
        if hit and found is not None:
            heal(self._block_keys, request_id, context.keys, found[self._shape.group])
        asked = context.read
        self.ledger.lookup(
            request_id,
            at_s,
            tokens,
            hit,
            context.keys,
            self._content(context, tokens // self._shape.block_size, first_block, block_tokens),
            asked.adapter,
            asked.salt,
            asked.image,
            skipped=skipped,
            adapter_load=context.adapter_load,
            other_keys=other_keys(self._shape, tokens, context.hashes) if self._shape.other_groups else (),
            found=found_keys(self._block_keys, found) if self._partly_found and found is not None else None,
        )
        if self.pool_curve is not None:
            self.pool_curve.looked_up(request_id, context.keys, tokens, hit, skipped=skipped)

    def _content(
        self, context: OpenContext, blocks: int, first_block: int, tokens: Sequence[int] | None
    ) -> list[Hashable] | None:
        """Content keys of so many blocks; ``None`` where they are not wanted or cannot be known."""
        if not self._isolated or context.keys is None:
            return None
        if self._keys_are_content(context):
            return context.keys
        content = context.content
        if first_block > len(content):
            content += self.ledger.contents_of(context.keys[len(content) : first_block])
        if tokens:
            context.extend_content(first_block, tokens, self._shape.block_size, self._content_keys)
        return content if len(content) >= blocks else None

    def _keys_are_content(self, context: OpenContext) -> bool:
        return self._content_keys.are_hashes and context.read is NOTHING_READ

    def _allocated(
        self, at_s: float, request_id: str, ids: Any, stored: Any, scheduled: bool, *tokens: int | None
    ) -> None:
        # One after the other, so that an error in one of them drops no other.
        if ids is not None:
            self.take((TAKEN, at_s, ids, request_id))
        if stored is not None:
            self.take((STORED, at_s, request_id, stored))
        if scheduled:
            self.take((SCHEDULED, at_s, request_id, *tokens))

    def _scheduled(self, at_s: float, request_id: str, admitted: int | None, external: int | None) -> None:
        if external or (external is not None and self.has_connector):
            asked = self._context(request_id).asked_tokens - (admitted or 0)
            self.ledger.external_lookup(request_id, at_s, max(asked, external), external)
        self.ledger.scheduled(request_id, at_s, admitted)
        if self.pool_curve is not None:
            self.pool_curve.scheduled(request_id)

    def _taken(self, at_s: float, block_ids: Sequence[int], request_id: str | None) -> None:
        self._evict(at_s, block_ids, request_id)

    def _evict_blocks(self, at_s: float, block_ids: Sequence[int]) -> None:
        self._evict(at_s, block_ids, None)

    def _stored(self, at_s: float, request_id: str, stored: tuple[Any, ...]) -> None:
        group, first, block_ids, mask, first_hash, hashes, first_block, block_tokens = stored
        context = self._context(request_id)
        context.extend_hashes(first_hash, hashes)
        end = first + len(block_ids)
        if group != self._shape.group:
            self._stored_elsewhere(at_s, context, group, first, end, block_ids, mask)
            return
        keys = hashes_of_blocks(context.hashes, first, end, self._shape.block_size // self._shape.hash_block_size)
        wanted = self._cleared(at_s, block_ids, mask)
        if block_tokens:
            context.extend_content(first_block, block_tokens, self._shape.block_size, self._content_keys)
        contents = keys if self._keys_are_content(context) else context.content[first:end]
        for start, stop in runs(wanted):
            content = contents[start:stop] if self._isolated else None
            self.ledger.stored(at_s, keys[start:stop], request_id, first + start, content)
        if self.pool_curve is not None:
            self.pool_curve.stored(request_id, keys)
        whole = len(wanted) == len(keys)
        ids = block_ids if whole else [block_ids[index] for index in wanted]
        entered = keys if whole else [keys[index] for index in wanted]
        self._block_keys.update(zip(ids, zip(entered, repeat(request_id)), strict=False))
        context.stored_blocks += len(wanted)

    def _stored_elsewhere(
        self,
        at_s: float,
        context: OpenContext,
        group: int,
        first: int,
        end: int,
        block_ids: Sequence[int],
        mask: Sequence[bool] | None,
    ) -> None:
        """Blocks of a group beside the followed one: they take room and are evicted, too."""
        size = next((size for index, size in self._shape.other_groups if index == group), None)
        if size is None:
            return
        keys = hashes_of_blocks(context.hashes, first, end, size // self._shape.hash_block_size)
        for index in self._cleared(at_s, block_ids, mask):
            key = (group, keys[index])
            self.ledger.stored(at_s, [key], context.request_id, first + index, ())
            self._block_keys[block_ids[index]] = (key, context.request_id)
            context.stored_blocks += 1

    def _cleared(self, at_s: float, ids: Sequence[int], mask: Sequence[bool] | None) -> list[int]:
        """Which of the blocks get content, by index; what they held until now is evicted."""
        wanted = [index for index, block_id in enumerate(ids) if block_id and (mask is None or mask[index])]
        if not self._block_keys.keys().isdisjoint(ids):
            self._evict(at_s, [ids[index] for index in wanted], None)
        return wanted

    def _freed(self, at_s: float, request_id: str, status: str, facts: tuple[Any, ...] | None) -> None:
        if self.pool_curve is not None:
            self.pool_curve.released(request_id, finished=facts is not None)
        if facts is None:
            if status == "RUNNING":
                self._context(request_id).preempted_at_s.append(at_s)
                self.ledger.preempted(request_id, at_s)
            return
        context = self._open.pop(request_id, None) or OpenContext(request_id)
        prompt_tokens, cached_tokens, external_tokens, *_ = facts
        self.ledger.finished(request_id, at_s, prompt_tokens, cached_tokens, external_tokens)
        finished = FinishedRequest(self._outcomes.pop(), context.finished(status, facts))
        self._tell("request_finished", finished)

    def _reset(self, at_s: float, ok: Any) -> None:
        before = self.ledger.totals.cleared_blocks
        self.ledger.reset(at_s, bool(ok))
        if ok:
            self._block_keys.clear()
            if self.pool_curve is not None:
                self.pool_curve.reset()
        self._tell("cache_reset", CacheReset(at_s, bool(ok), self.ledger.totals.cleared_blocks - before))

    def _adapter(self, at_s: float, adapter: Adapter) -> None:
        self._adapter_loads.loaded(adapter)

    def _gap(self, at_s: float) -> None:
        self.ledger.forget()
        if self.pool_curve is not None:
            self.pool_curve.forget()
        self._block_keys.clear()
        self._open.clear()
        self._prefixes.clear()

    def _evict(self, at_s: float, block_ids: Iterable[int], caused_by: str | None) -> None:
        held = self._block_keys
        gone = [pair for pair in map(held.pop, block_ids, repeat(None)) if pair is not None]
        if not gone:
            return
        self._evictions.clear()
        self.ledger.evicted(at_s, [key for key, _ in gone], caused_by)
        context = self._open.get(caused_by) if caused_by is not None else None
        if context is not None:
            context.evicted_blocks += len(gone)
        if self._evictions:
            whose = [stored_by for _, stored_by in gone]
            stored_by = whose if len(whose) == len(self._evictions) else [None] * len(self._evictions)
            self._tell("evicted", EvictionBatch(at_s, caused_by, tuple(self._evictions), tuple(stored_by)))

    def _context(self, request_id: str) -> OpenContext:
        context = self._open.get(request_id)
        if context is None:
            context = self._new_context(OpenContext(request_id))
        return context

    def _new_context(self, context: OpenContext) -> OpenContext:
        if len(self._open) >= MOST_OPEN_REQUESTS:
            del self._open[next(iter(self._open))]
        self._open[context.request_id] = context
        return context

    def _tell(self, method: str, record: Any) -> None:
        for sink in self.sinks:
            try:
                getattr(sink, method)(record)
            except Exception as error:
                self._switch.note(f"{type(sink).__module__}.{method}", error)
