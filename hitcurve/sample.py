"""One reading of one engine: the record that every part of hitcurve passes on.

A value that the page did not give is ``None``, which is never the same as zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "AdapterActivity",
    "EngineSample",
    "ExplainedLookups",
    "LookupCounters",
    "ServedCounters",
    "SourceUnit",
]

SourceUnit = Literal["tokens", "blocks"]


@dataclass(frozen=True, slots=True)
class LookupCounters:
    """The pair of lookup counters as the engine prints them, since its start.

    ``tokens_per_unit`` turns them into tokens: 1 where the engine counts tokens, the block size where it
    counts blocks, ``None`` where it counts blocks of unknown size (a rate exists then, token volumes do not).
    """

    queries: float
    hits: float
    unit: SourceUnit = "tokens"
    tokens_per_unit: int | None = 1
    spelling: str = ""
    """Name of the queries counter as printed, so that a change of names during an upgrade can be seen."""


@dataclass(frozen=True, slots=True)
class ServedCounters:
    """Prompt tokens of served requests, and how many of them came from any cache; tokens since start."""

    prompt_tokens: float
    cached_tokens: float


@dataclass(frozen=True, slots=True)
class ExplainedLookups:
    """Query tokens of finished requests since start, and the missed ones by miss reason (engine patch)."""

    queries: float
    missed: Mapping[str, float]
    by_adapter: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Query and hit tokens by adapter; the base model is called ``""``."""


@dataclass(frozen=True, slots=True)
class AdapterActivity:
    """LoRA adapters with running and with waiting requests (activity, not residency)."""

    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    max_adapters: int | None = None


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One reading of one engine (one rank, one model) at one moment.

    Counters are raw: since the start of the engine, not corrected for restarts.
    """

    engine: str
    """Identity within the target: stable from scrape to scrape, unique on the page."""
    at_s: float
    """Wall clock, Unix seconds; in recorded pages the recorded time."""
    monotonic_s: float
    """Monotonic clock in seconds, for durations; equals ``at_s`` in recorded pages."""
    labels: Mapping[str, str] = field(default_factory=dict)
    start_time_s: float | None = None
    """When the counters were created or the process started, Unix seconds."""
    lookups: LookupCounters | None = None
    """``None`` with the flag ``unreadable_lookups`` where they should be told, else where nothing is new."""
    external: LookupCounters | None = None
    """Lookups in a cache outside the engine (KV connector), in tokens."""
    served: ServedCounters | None = None
    tier_hits: Mapping[str, float] | None = None
    """Hit tokens since start by the tier that held them: ``device``, ``host``, ``disk``, ``p2p``, ``external``."""
    requests: float | None = None
    """Requests whose prefill was done, since start."""
    ttft_seconds: float | None = None
    """Sum of the times to first token of those requests, since start."""
    kv_usage: float | None = None
    """Share of the pool held by running requests, 0 to 1. Idle cached blocks are not counted."""
    preemptions: float | None = None
    evictions: float | None = None
    """Cached blocks evicted since start."""
    resets: float | None = None
    """Prefix cache resets since start."""
    explained: ExplainedLookups | None = None
    running: float | None = None
    waiting: float | None = None
    adapters: AdapterActivity | None = None
    block_size: int | None = None
    pool_blocks: int | None = None
    capacity_tokens: int | None = None
    min_reusable_prefix_tokens: int | None = None
    flags: tuple[str, ...] = ()
    """What the reader found odd about this engine's part of the page; names from ``hitcurve.flags``."""
