"""What the ledger hands out: one outcome per request, one record per eviction, running totals.

A value that is not known is ``None``, which is never the same as zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

__all__ = [
    "ANOMALIES",
    "MISS_REASONS",
    "Eviction",
    "MissReason",
    "Outcome",
    "OutcomeStatus",
    "Regret",
    "Totals",
]

MissReason = Literal["compulsory", "capacity", "reset", "isolated", "tail", "stranded"]
MISS_REASONS: Final[tuple[MissReason, ...]] = get_args(MissReason)
"""In the order in which reports list them; docs/miss_reasons.md says how each is decided."""

OutcomeStatus = Literal["looked_up", "skipped", "not_scheduled", "not_looked_up"]

ANOMALIES: Final[dict[str, str]] = {
    "hits_exceed_query": "more tokens were reported found than looked up; the surplus was dropped",
    "admitted_exceeds_hits": "more tokens were admitted as found than the lookup found; the lookup counts",
    "external_exceeds_cached": "the engine reports more external tokens than cached tokens in all",
    "cached_exceeds_prompt": "the engine reports more cached tokens than the prompt holds",
    "hit_of_unknown_block": "the engine found a block that the ledger did not know to be cached",
    "missed_cached_block": "the engine passed over a cached block whose whole prefix is cached",
}
"""Names of what can be odd about a request, with a sentence for each."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the cache did for one request, once the request is over. Volumes are tokens, times seconds.

    ``status`` says whether the cache was read:

    - ``looked_up``: the request was scheduled after a lookup; ``hit_tokens`` and the miss reasons add up to
      ``query_tokens``, as of the successful scheduling.
    - ``skipped``: it may not read the cache; its tokens are neither query nor miss.
    - ``not_scheduled``: it was looked up and ended (aborted) before it was scheduled.
    - ``not_looked_up``: the ledger saw no lookup, only the end.

    ``query_tokens``, ``hit_tokens``, ``miss_tokens`` and ``stale_hit_tokens`` are ``None`` in the last three.
    """

    request_id: str
    status: OutcomeStatus
    prompt_tokens: int | None
    adapter: str | None = None
    query_tokens: int | None = None
    hit_tokens: int | None = None
    """Found in the engine's own cache; external hits are not in it."""
    miss_tokens: Mapping[MissReason, int] | None = None
    """Every reason, zeros included; ``None`` also where the block keys were unknown."""
    isolated_by: Mapping[str, int] = field(default_factory=dict)
    """The tokens of reason ``isolated`` by key kind: ``adapter``, ``salt`` or ``image``."""
    stale_hit_tokens: int | None = None
    """Of the hit tokens those in blocks that other weights of the same adapter computed: the answer is wrong."""
    external_query_tokens: int | None = None
    """Asked of a cache outside the engine (KV connector); ``None`` where none was asked."""
    external_hit_tokens: int | None = None
    computed_tokens: int | None = None
    """query - hit - external hit, never negative."""
    cached_tokens: int | None = None
    """The engine's own figure at the end (local and external); -1 and None of the engine read ``None``."""
    lookups: int = 0
    """Lookups until it was first scheduled: more than one means that it waited for blocks."""
    preemptions: int = 0
    recompute_query_tokens: int = 0
    """Looked up again after preemptions; in no hit rate."""
    recompute_hit_tokens: int = 0
    looked_up_at_s: float | None = None
    scheduled_at_s: float | None = None
    finished_at_s: float | None = None
    queue_s: float | None = None
    """From the first lookup to the first scheduling."""
    anomalies: tuple[str, ...] = ()
    """Names from ``ANOMALIES``."""


class Eviction(NamedTuple):
    """One block that lost its cached content to make room. Resets are no evictions.

    A tuple, since it arises per block and not per request.
    """

    at_s: float
    age_s: float
    """Since it was cached."""
    idle_s: float
    """Since a request last read or held it."""
    reuses: int
    """How many requests found it."""
    depth: int | None
    """Place in its chain, 0 for the head; ``None`` where the block was only seen through a hit."""
    adapter: str | None
    evicted_by: str | None
    """The request whose allocation took the block; ``None`` where nobody's did."""
    copies_left: int
    """Blocks with the same key after the event; above zero the content is still cached."""


@dataclass(frozen=True, slots=True)
class Regret:
    """An evicted block was asked for again: what the eviction cost."""

    at_s: float
    request_id: str
    adapter: str | None
    """Of the request that asks."""
    after_s: float | None
    """Since the eviction; ``None`` where that was too long ago to be remembered."""
    tokens: int
    """Recomputed because of it: the block's, and those stranded behind it."""


@dataclass(slots=True)
class Totals:
    """Sums since the ledger began. Queries, hits and reasons count when a request is scheduled."""

    requests: int = 0
    """Scheduled after a lookup."""
    query_tokens: int = 0
    hit_tokens: int = 0
    stale_hit_tokens: int = 0
    """Of the hit tokens; see ``Outcome``."""
    miss_tokens: dict[MissReason, int] = field(default_factory=lambda: dict.fromkeys(MISS_REASONS, 0))
    unexplained_miss_tokens: int = 0
    """Missed by requests whose block keys were unknown."""
    isolated_by: dict[str, int] = field(default_factory=lambda: {"adapter": 0, "salt": 0, "image": 0})
    skipped_requests: int = 0
    skipped_tokens: int = 0
    external_query_tokens: int = 0
    external_hit_tokens: int = 0
    preemptions: int = 0
    recompute_query_tokens: int = 0
    recompute_hit_tokens: int = 0
    stored_blocks: int = 0
    evicted_blocks: int = 0
    regretted_tokens: int = 0
    resets: int = 0
    refused_resets: int = 0
    cleared_blocks: int = 0
    """Cleared by resets; not among the evicted ones."""
    unknown_evictions: int = 0
    """Evictions of blocks that the ledger did not know to be cached."""
    anomalies: int = 0
    """Requests with at least one anomaly."""
    ghosts_dropped: int = 0
    """Memories of gone blocks given up for lack of room: their next miss reads ``compulsory``."""
    requests_dropped: int = 0
    """Open requests given up for lack of room, without an outcome."""

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens / query tokens; ``None`` where nothing was looked up."""
        return self.hit_tokens / self.query_tokens if self.query_tokens else None
