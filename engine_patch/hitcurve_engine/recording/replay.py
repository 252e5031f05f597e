"""Raw events of the hooks, in order, into the ledger; and what the ledger yields, out to the sinks.

One thread feeds it. It knows for every block of the pool which key it holds, from the events alone, and never
looks into the engine's own tables, which change meanwhile.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from hitcurve_engine.ledger import Eviction, Ledger, Outcome
from hitcurve_engine.pool_curve import PoolCurve
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import RawEvent
from hitcurve_engine.recording.adapter_loads import AdapterLoads
from hitcurve_engine.recording.open_request import OpenContext
from hitcurve_engine.recording.request_reading import plain_hashes, skips_lookup
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
            context.keys = self._keys_of(tokens, hashes)
            context.keys_of_tokens = tokens
            if self._isolated and context.keys is not None:
                known = self.ledger.contents_of(context.keys[len(context.content) :])
                context.extend_content(request, self._shape.block_size, len(context.keys), known)
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
        )
        if self.pool_curve is not None:
            self.pool_curve.looked_up(context.request_id, context.keys, tokens, hit, skipped=skipped)
        if hit and result is not None:
            self._heal(context, result[0])

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
            return
        context = self._context(request)
        step = self._shape.block_size // self._shape.hash_block_size
        keys = plain_hashes(hashes[(first + 1) * step - 1 : end * step : step])
        blocks = blocks[first - offset : end - offset]
        wanted = [index for index, block in enumerate(blocks) if block.block_id and (mask is None or mask[index])]
        replaced = [blocks[index].block_id for index in wanted if blocks[index].block_id in self._block_keys]
        if replaced:
            self._evict(at_s, replaced, None)
        if self._isolated:
            context.extend_content(request, self._shape.block_size, first + len(blocks))
        for start, stop in _runs(wanted):
            content = context.content[first + start : first + stop] if self._isolated else None
            self.ledger.stored(at_s, keys[start:stop], context.request_id, first + start, content)
        if self.pool_curve is not None:
            self.pool_curve.stored(context.request_id, keys)
        for index in wanted:
            self._block_keys[blocks[index].block_id] = (keys[index], context.request_id)
        context.stored_blocks += len(wanted)

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
        gone = [held.pop(block_id) for block_id in block_ids if block_id in held]
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

    def _heal(self, context: OpenContext, found: Any) -> None:
        """After a gap: a block that is found and that nothing is known of gets its key back."""
        blocks = getattr(found, "blocks", found)
        if blocks and isinstance(blocks[0], list | tuple):
            blocks = blocks[self._shape.group]
        if context.keys is None or not blocks or blocks[0].block_id in self._block_keys:
            return
        for block, key in zip(blocks, context.keys, strict=False):
            if block.block_id:
                self._block_keys.setdefault(block.block_id, (key, context.request_id))

    def _keys_of(self, tokens: int, hashes: Any) -> list[Hashable] | None:
        """Keys of the full blocks of a request; ``None`` where they cannot be known."""
        if hashes is None:
            return None
        size = self._shape.block_size
        step = size // self._shape.hash_block_size
        full = tokens // size
        keys = plain_hashes(hashes[step - 1 : full * step : step])
        if len(keys) < full - 1:
            return None
        # The engine may hash the last block only once it knows the tokens behind it.
        return keys if len(keys) == full else [*keys, object()]

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


def _runs(indices: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Half-open stretches of consecutive numbers."""
    start = 0
    for place in range(1, len(indices) + 1):
        if place == len(indices) or indices[place] != indices[place - 1] + 1:
            yield indices[start], indices[place - 1] + 1
            start = place
