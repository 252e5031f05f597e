"""All that one request's allocations pushed out, in a few numbers: blocks are too many for spans of their own."""

from typing import Final

from hitcurve_engine.recording.sinks import EvictionBatch

__all__ = ["MOST_VICTIMS", "EvictionSummary"]

MOST_VICTIMS: Final = 64
_MOST_ADAPTERS: Final = 16


class EvictionSummary:
    """Grows by batches. ``caused_by`` is ``None`` where the engine took blocks for nobody."""

    __slots__ = (
        "adapters",
        "allocations",
        "blocks",
        "caused_by",
        "duplicates",
        "first_at_s",
        "last_at_s",
        "longest_idle_s",
        "never_reused",
        "oldest_s",
        "reuses",
        "shallowest",
        "shortest_idle_s",
        "victims",
    )

    def __init__(self, batch: EvictionBatch) -> None:
        self.caused_by = batch.caused_by
        self.first_at_s = batch.at_s
        self.last_at_s = batch.at_s
        self.allocations = 0
        self.blocks = 0
        self.oldest_s = 0.0
        self.shortest_idle_s = float("inf")
        self.longest_idle_s = 0.0
        self.never_reused = 0
        self.reuses = 0
        self.duplicates = 0
        """Blocks whose content another block still holds."""
        self.shallowest: int | None = None
        self.adapters: set[str] = set()
        self.victims: dict[str, int] = {}
        """Blocks by the request that had stored them; the first ``MOST_VICTIMS`` requests."""
        self.add(batch)

    def add(self, batch: EvictionBatch) -> None:
        """One more allocation of the same request."""
        self.allocations += 1
        self.last_at_s = batch.at_s
        self.blocks += len(batch.evictions)
        for eviction in batch.evictions:
            self.oldest_s = max(self.oldest_s, eviction.age_s)
            self.shortest_idle_s = min(self.shortest_idle_s, eviction.idle_s)
            self.longest_idle_s = max(self.longest_idle_s, eviction.idle_s)
            self.reuses += eviction.reuses
            self.never_reused += not eviction.reuses
            self.duplicates += eviction.copies_left > 0
            if eviction.depth is not None and (self.shallowest is None or eviction.depth < self.shallowest):
                self.shallowest = eviction.depth
            if eviction.adapter is not None and len(self.adapters) < _MOST_ADAPTERS:
                self.adapters.add(eviction.adapter)
        for request_id in batch.stored_by:
            if request_id is not None and (request_id in self.victims or len(self.victims) < MOST_VICTIMS):
                self.victims[request_id] = self.victims.get(request_id, 0) + 1
