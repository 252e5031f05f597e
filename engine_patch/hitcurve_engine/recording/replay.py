"""Raw events of the hooks, in order, into the ledger; and what the ledger yields, out to the sinks.

One thread feeds it. It knows for every block of the pool which key it holds, from the events alone, and never
looks into the engine's own tables, which change meanwhile.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final

from hitcurve_engine.ledger import Eviction, Ledger, Outcome
from hitcurve_engine.pool_curve import PoolCurve
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import RawEvent
from hitcurve_engine.recording.adapter_loads import AdapterLoads
from hitcurve_engine.recording.block_reading import blocks_by_group, hashes_of_blocks, keys_of, other_keys, runs
from hitcurve_engine.recording.open_request import OpenContext
from hitcurve_engine.recording.request_reading import skips_lookup
from hitcurve_engine.recording.sinks import CacheReset, EvictionBatch, FinishedRequest, Sink
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

__all__ = ["MOST_ERRORS", "Replay", "UnknownShape"]

_log = logging.getLogger("hitcurve.engine")

MOST_ERRORS: Final = 100
"""Events that may fail at one place before the patch turns itself off."""
MOST_OPEN_REQUESTS: Final = 100_000


class UnknownShape(Exception):
    """The engine answered a hook's original in a way that no known version does."""


class Replay:
    """The events of one cache manager. ``sinks`` may be filled before the first event."""

    def __init__(self, shape: CacheShape, settings: Settings, switch: Switch) -> None:
        self.sinks: list[Sink] = []
        self._shape = shape
        self._switch = switch
        self._isolated = settings.isolated
        self._partly_found = shape.groups > 1 or not shape.full_attention
        self._block_keys: dict[int, tuple[Hashable, str]] = {}
        """By block id: the key it holds, and who stored it."""
        self._open: dict[str, OpenContext] = {}
        self._adapter_loads = AdapterLoads()
        self.pool_curve = _pool_curve(shape, settings)
        """``None`` unless it is wanted and the engine has one kind of blocks."""
        self._outcomes: list[Outcome] = []
        self._evictions: list[Eviction] = []
        self.ledger = Ledger(
            shape.block_size,
            pool_blocks=shape.pool_blocks,
            ghosts_per_block=settings.ghosts_per_block,
            withheld_blocks=shape.withheld_blocks,
            most_open_requests=MOST_OPEN_REQUESTS,
            on_outcome=self._outcomes.append,
            on_eviction=self._evictions.append,
            on_regret=lambda regret: self._tell("regretted", regret),
        )
        handlers = (self._lookup, self._scheduled, self._taken, self._stored, self._freed, self._reset)
        self._handlers: tuple[Callable[..., None], ...] = (*handlers, self._evict_blocks, self._gap, self._adapter)

    def feed(self, event: RawEvent) -> None:
        """Take one event. An own error is counted and the event dropped; too many turn the patch off."""
        try:
            self._handlers[event[0]](*event[1:])
        except UnknownShape as error:
            self._switch.fail("replay", error)
        except Exception as error:
            place = self._handlers[event[0]].__name__.strip("_")
            if self._switch.note(f"replay.{place}", error) >= MOST_ERRORS:
                self._switch.turn_off(f"{MOST_ERRORS} errors in replay.{place}")

    def _lookup(self, at_s: float, request: Any, tokens: int, hit: Any, result: Any, hashes: Any) -> None:
        if not isinstance(hit, int) or hit < 0:
            raise UnknownShape(f"a lookup returned {type(hit).__name__} as the number of tokens found")
        context = self._context(request)
        if tokens != context.keys_of_tokens:
            context.keys = keys_of(self._shape, tokens, hashes)
            context.keys_of_tokens = tokens
            if self._isolated and context.keys is not None:
                known = self.ledger.contents_of(context.keys[len(context.content) :])
                context.extend_content(request, self._shape.block_size, len(context.keys), known)
        blocks = None if result is None else blocks_by_group(result[0])
        if hit and blocks is not None:
            self._heal(context, blocks)
        asked, skipped = context.read, skips_lookup(request)
        self.ledger.lookup(
            context.request_id,
            at_s,
            tokens,
            hit,
            context.keys,
            context.content if self._isolated and context.keys is not None else None,
            asked.adapter,
            asked.salt,
            asked.image,
            skipped=skipped,
            adapter_load=context.adapter_load,
            other_keys=other_keys(self._shape, tokens, hashes) if self._shape.other_groups else (),
            found=self._found(blocks) if self._partly_found and blocks is not None else None,
        )
        if self.pool_curve is not None:
            self.pool_curve.looked_up(context.request_id, context.keys, tokens, hit, skipped=skipped)

    def _scheduled(self, at_s: float, request: Any, admitted: int | None, external: int) -> None:
        context = self._context(request)
        if external:
            asked = max(context.keys_of_tokens - (admitted or 0), external)
            self.ledger.external_lookup(context.request_id, at_s, asked, external)
        self.ledger.scheduled(context.request_id, at_s, admitted)
        if self.pool_curve is not None:
            self.pool_curve.scheduled(context.request_id)

    def _taken(self, at_s: float, blocks: Sequence[Any], count: int, request: Any) -> None:
        block_ids = [block.block_id for block in blocks[:count]]
        self._evict(at_s, block_ids, None if request is None else request.request_id)

    def _evict_blocks(self, at_s: float, block_ids: Iterable[int]) -> None:
        self._evict(at_s, block_ids, None)

    def _stored(
        self,
        at_s: float,
        request: Any,
        group: int,
        first: int,
        end: int,
        hashes: list[Any],
        blocks: Sequence[Any],
        offset: int,
        mask: Sequence[bool] | None,
    ) -> None:
        if group != self._shape.group:
            self._stored_elsewhere(at_s, request, group, first, end, hashes, blocks, offset, mask)
            return
        context = self._context(request)
        keys = hashes_of_blocks(hashes, first, end, self._shape.block_size // self._shape.hash_block_size)
        blocks = blocks[first - offset : end - offset]
        wanted = self._cleared(at_s, blocks, mask)
        if self._isolated:
            context.extend_content(request, self._shape.block_size, first + len(blocks))
        for start, stop in runs(wanted):
            content = context.content[first + start : first + stop] if self._isolated else None
            self.ledger.stored(at_s, keys[start:stop], context.request_id, first + start, content)
        if self.pool_curve is not None:
            self.pool_curve.stored(context.request_id, keys)
        ids = [blocks[index].block_id for index in wanted]
        stored = keys if len(wanted) == len(keys) else [keys[index] for index in wanted]
        self._block_keys.update(zip(ids, zip(stored, repeat(context.request_id)), strict=False))
        context.stored_blocks += len(wanted)

    def _stored_elsewhere(
        self,
        at_s: float,
        request: Any,
        group: int,
        first: int,
        end: int,
        hashes: list[Any],
        blocks: Sequence[Any],
        offset: int,
        mask: Sequence[bool] | None,
    ) -> None:
        """Blocks of a group beside the followed one: they take room and are evicted, too."""
        size = next((size for index, size in self._shape.other_groups if index == group), None)
        if size is None:
            return
        context = self._context(request)
        keys = hashes_of_blocks(hashes, first, end, size // self._shape.hash_block_size)
        blocks = blocks[first - offset : end - offset]
        for index in self._cleared(at_s, blocks, mask):
            key = (group, keys[index])
            self.ledger.stored(at_s, [key], context.request_id, first + index, ())
            self._block_keys[blocks[index].block_id] = (key, context.request_id)
            context.stored_blocks += 1

    def _cleared(self, at_s: float, blocks: Sequence[Any], mask: Sequence[bool] | None) -> list[int]:
        """Which of the blocks get content, by index; what they held until now is evicted."""
        ids = [block.block_id for block in blocks]
        wanted = [index for index, block_id in enumerate(ids) if block_id and (mask is None or mask[index])]
        if not self._block_keys.keys().isdisjoint(ids):
            self._evict(at_s, [ids[index] for index in wanted], None)
        return wanted

    def _freed(self, at_s: float, request: Any, state: Any) -> None:
        status = getattr(state, "name", str(state))
        over = status.startswith("FINISHED")
        if self.pool_curve is not None:
            self.pool_curve.released(request.request_id, finished=over)
        if not over:
            if status == "RUNNING":
                self._context(request).preempted_at_s.append(at_s)
                self.ledger.preempted(request.request_id, at_s)
            return
        context = self._open.pop(request.request_id, None) or OpenContext(request)
        self.ledger.finished(
            request.request_id,
            at_s,
            request.num_prompt_tokens,
            getattr(request, "num_cached_tokens", None),
            getattr(request, "num_external_computed_tokens", None),
        )
        finished = FinishedRequest(self._outcomes.pop(), context.finished(request, status))
        self._tell("request_finished", finished)

    def _reset(self, at_s: float, ok: Any) -> None:
        before = self.ledger.totals.cleared_blocks
        self.ledger.reset(at_s, bool(ok))
        if ok:
            self._block_keys.clear()
            if self.pool_curve is not None:
                self.pool_curve.reset()
        self._tell("cache_reset", CacheReset(at_s, bool(ok), self.ledger.totals.cleared_blocks - before))

    def _adapter(self, at_s: float, lora: Any) -> None:
        self._adapter_loads.loaded(lora)

    def _gap(self, at_s: float) -> None:
        self.ledger.forget()
        if self.pool_curve is not None:
            self.pool_curve.forget()
        self._block_keys.clear()
        self._open.clear()

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

    def _heal(self, context: OpenContext, groups: Sequence[Sequence[Any]]) -> None:
        """After a gap: a block that is found and that nothing is known of gets its key back."""
        blocks = groups[self._shape.group]
        if context.keys is None or not blocks or blocks[0].block_id in self._block_keys:
            return
        for block, key in zip(blocks, context.keys, strict=False):
            if block.block_id:
                self._block_keys.setdefault(block.block_id, (key, context.request_id))

    def _found(self, groups: Sequence[Sequence[Any]]) -> list[Hashable]:
        """Keys of the blocks that a lookup found; a place that a sliding window left empty has none."""
        held = self._block_keys
        return [held[block.block_id][0] for blocks in groups for block in blocks if block.block_id in held]

    def _context(self, request: Any) -> OpenContext:
        context = self._open.get(request.request_id)
        if context is None:
            if len(self._open) >= MOST_OPEN_REQUESTS:
                del self._open[next(iter(self._open))]
            context = self._open[request.request_id] = OpenContext(request)
            lora = getattr(request, "lora_request", None)
            if lora is not None:
                context.adapter_load = self._adapter_loads.of(lora)
        return context

    def _tell(self, method: str, record: Any) -> None:
        for sink in self.sinks:
            try:
                getattr(sink, method)(record)
            except Exception as error:
                self._switch.note(f"{type(sink).__module__}.{method}", error)


def _pool_curve(shape: CacheShape, settings: Settings) -> PoolCurve | None:
    if not settings.pool_curve:
        return None
    if shape.groups > 1 or not shape.full_attention:
        _log.warning("hitcurve: no curve over pool sizes: this model does not keep all blocks of a prompt alike")
        return None
    return PoolCurve(shape.block_size, shape.pool_blocks, settings.pool_curve_keys)
