"""What the ledger keeps of a request between its first event and its end."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from hitcurve_engine.ledger.blocks import Block, Origin
from hitcurve_engine.ledger.classify import Misses
from hitcurve_engine.ledger.records import Outcome, OutcomeStatus
from hitcurve_engine.ledger.stale_hits import NOTHING_STALE, StaleHits

__all__ = ["OpenRequest", "PendingLookup", "outcome_of"]


@dataclass(slots=True)
class PendingLookup:
    """The last lookup of a request that was not scheduled since."""

    query_tokens: int
    hit_tokens: int
    keys: Sequence[Hashable] | None
    misses: Misses | None
    table_version: int
    skipped: bool
    stale: StaleHits = NOTHING_STALE
    found: Sequence[Hashable] | None = None

    def same_as(self, later: "PendingLookup") -> bool:
        """Whether a later lookup of the request must come out like this one, reasons included."""
        return (
            self.misses is not None
            and self.table_version == later.table_version
            and self.hit_tokens == later.hit_tokens
            and self.query_tokens == later.query_tokens
        )


@dataclass(slots=True)
class OpenRequest:
    """A request under way. ``counted`` is the lookup with which it was first scheduled."""

    request_id: str
    origin: Origin = field(default_factory=Origin)
    prompt_tokens: int | None = None
    content_keys: Sequence[Hashable] | None = None
    pending: PendingLookup | None = None
    counted: PendingLookup | None = None
    held: list[Block] = field(default_factory=list)
    lookups: int = 0
    preemptions: int = 0
    recompute_query_tokens: int = 0
    recompute_hit_tokens: int = 0
    stored_as: Origin | None = None
    """Where the blocks that it stores come from, if not from ``origin``."""
    external_query_tokens: int | None = None
    external_hit_tokens: int | None = None
    external_loads_later: bool = False
    looked_up_at_s: float | None = None
    scheduled_at_s: float | None = None
    anomalies: list[str] = field(default_factory=list)

    def note(self, anomaly: str) -> None:
        """Remember an anomaly, once."""
        if anomaly not in self.anomalies:
            self.anomalies.append(anomaly)

    def release(self, at_s: float) -> None:
        """The request lets go of its blocks: from now on they are idle."""
        for block in self.held:
            block.last_used_s = at_s
        self.held.clear()


def outcome_of(request: OpenRequest, finished_at_s: float, cached_tokens: int | None) -> Outcome:
    """The outcome of a request that is over; ``cached_tokens`` is the engine's own figure, if it has one."""
    counted = request.counted
    looked_up = counted is not None and not counted.skipped
    query = hit = computed = stale = None
    miss_tokens, isolated_by = None, {}
    if counted is not None and looked_up:
        query, hit = counted.query_tokens, counted.hit_tokens
        stale = min(counted.stale.tokens, hit)
        computed = max(query - hit - (request.external_hit_tokens or 0), 0)
        if counted.misses is not None:
            miss_tokens, isolated_by = counted.misses.tokens, counted.misses.isolated_by
    queue_s = None
    if request.scheduled_at_s is not None and request.looked_up_at_s is not None:
        queue_s = request.scheduled_at_s - request.looked_up_at_s
    return Outcome(
        request_id=request.request_id,
        status=_status(request),
        prompt_tokens=request.prompt_tokens,
        adapter=request.origin.adapter,
        query_tokens=query,
        hit_tokens=hit,
        miss_tokens=miss_tokens,
        isolated_by=isolated_by,
        stale_hit_tokens=stale,
        external_query_tokens=request.external_query_tokens,
        external_hit_tokens=request.external_hit_tokens,
        computed_tokens=computed,
        cached_tokens=cached_tokens,
        lookups=request.lookups,
        preemptions=request.preemptions,
        recompute_query_tokens=request.recompute_query_tokens,
        recompute_hit_tokens=request.recompute_hit_tokens,
        looked_up_at_s=request.looked_up_at_s,
        scheduled_at_s=request.scheduled_at_s,
        finished_at_s=finished_at_s,
        queue_s=queue_s,
        anomalies=tuple(request.anomalies),
    )


def _status(request: OpenRequest) -> OutcomeStatus:
    if request.counted is not None:
        return "skipped" if request.counted.skipped else "looked_up"
    if request.pending is not None:
        return "skipped" if request.pending.skipped else "not_scheduled"
    return "not_looked_up"
