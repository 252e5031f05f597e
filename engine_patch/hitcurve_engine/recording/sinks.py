"""What the replay hands on, and to whom.

A sink (spans, metrics, a file) gets finished requests, evictions, regrets and resets as they are replayed, in the
order in which they happened, all on the one thread that replays: in a process of its own, or the recorder's, never
the engine's. An error in a sink is counted and logged once; it reaches neither the engine nor the other sinks.
Times named ``at_s`` are seconds of the monotonic clock; ``EngineFacts.wall_offset_s`` added to them gives seconds
since the epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from hitcurve_engine.ledger import Eviction, Outcome, Regret, Totals
from hitcurve_engine.pool_curve import PoolCurveSums

__all__ = [
    "CacheReset",
    "EngineFacts",
    "EvictionBatch",
    "FinishedRequest",
    "PatchStatus",
    "RequestContext",
    "Sink",
    "SinkFactory",
]


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is known of the engine whose cache is watched; ``None`` = not known."""

    block_size: int
    pool_blocks: int
    """Usable blocks: vLLM's own number without the null block."""
    groups: int
    """KV cache groups. The ledger follows one of them; see docs/engine_patch.md."""
    pid: int
    wall_offset_s: float
    """Wall clock minus monotonic clock when the recorder started."""
    engine_index: int | None = None
    """Data-parallel rank."""
    model_name: str | None = None
    engine_version: str | None = None
    traces_endpoint: str | None = None
    """vLLM's own ``--otlp-traces-endpoint``."""
    has_connector: bool | None = None
    """Whether a KV connector looks outside the engine."""
    hash_root: str | None = None
    """Fingerprint of what block hashes begin with; see ``hash_root_fingerprint``."""
    hash_algorithm: str | None = None
    """vLLM's ``--prefix-caching-hash-algo``."""
    vllm_span_attributes: tuple[str, ...] = ()
    """Attributes that vLLM's own spans may have."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a sink may want to know of a request besides its outcome. No token, hash or salt is in it."""

    trace_carrier: Mapping[str, str] | None = None
    """``traceparent`` and ``tracestate`` as they came in; ``None`` without any."""
    arrival_wall_s: float | None = None
    """vLLM's own arrival time, seconds since the epoch."""
    salted: bool = False
    image_keys: int = 0
    """Images, audio and the like whose identifiers are in the block keys."""
    finish_status: str | None = None
    """vLLM's name, such as ``FINISHED_STOPPED``."""
    output_tokens: int | None = None
    preempted_at_s: tuple[float, ...] = ()
    stored_blocks: int = 0
    evicted_blocks: int = 0
    """Blocks that lost their content to this request's allocations."""


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """One request that is over. Every request that was looked up is handed out once."""

    outcome: Outcome
    context: RequestContext


class EvictionBatch(NamedTuple):
    """What one allocation, or one call to evict, pushed out of the cache."""

    at_s: float
    caused_by: str | None
    """The request whose allocation took the blocks; ``None`` where nobody's did."""
    evictions: Sequence[Eviction]
    stored_by: Sequence[str | None]
    """For each of them the request that had stored the block."""


class CacheReset(NamedTuple):
    """Somebody asked to clear the cache."""

    at_s: float
    ok: bool
    cleared_blocks: int


@dataclass(slots=True)
class PatchStatus:
    """How the patch itself does, since it was loaded."""

    active: bool = True
    off_reason: str | None = None
    """Why it switched itself off."""
    errors: dict[str, int] = field(default_factory=dict)
    """Own errors by place; each was swallowed."""
    events: int = 0
    """Taken off the queue."""
    dropped_events: int = 0
    """Not taken up, since the queue was full."""
    queued_events: int = 0
    busy_s: float = 0.0
    """CPU seconds of the thread that replays, in whatever process."""
    hand_over_s: float = 0.0
    """CPU seconds of the thread in the engine's process that hands events to the process of its own."""
    cached_keys: int = 0
    duplicate_blocks: int = 0
    """Blocks beyond the first with the same key."""
    ghost_keys: int = 0
    open_requests: int = 0
    pool_curve: PoolCurveSums | None = None
    """``None`` where no curve over pool sizes is estimated."""


class Sink(Protocol):
    """Who wants to know. Methods must return soon: work that may wait belongs on a thread of the sink's own."""

    def request_finished(self, finished: FinishedRequest) -> None:
        """A request is over."""

    def evicted(self, batch: EvictionBatch) -> None:
        """Cached blocks made room. At least one eviction is in it."""

    def regretted(self, regret: Regret) -> None:
        """An evicted block was asked for again."""

    def cache_reset(self, reset: CacheReset) -> None:
        """The cache was cleared, or the engine refused to."""

    def tick(self, status: PatchStatus, totals: Totals) -> None:
        """About once a second while the engine lives: both objects are live and must not be changed or kept."""

    def close(self, deadline_s: float) -> None:
        """The engine ends: give away what is held until the monotonic clock reads ``deadline_s``, then return."""


SinkFactory = Callable[[EngineFacts], Sink | None]
"""Makes the sink of one engine, in the engine's process, on the recorder's thread; ``None`` = not wanted."""
