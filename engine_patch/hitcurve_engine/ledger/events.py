"""The events a ledger is fed with, in the order in which they happened.

Each is a named tuple whose fields are the arguments of the ``Ledger`` method of the same name, in the same
order: ``ledger.feed(Lookup("r1", 0.0, 64, 0))`` is ``ledger.lookup("r1", 0.0, 64, 0)``. A hot path may append
plain tuples and hand them to the methods later.

Times are seconds on any clock that does not go backwards, one clock per ledger. Keys are hashable and chained:
equal keys mean equal tokens from the start of the prompt on.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

__all__ = [
    "Event",
    "Evicted",
    "ExternalLookup",
    "Finished",
    "Lookup",
    "Preempted",
    "Reset",
    "Scheduled",
    "Stored",
]


class Lookup(NamedTuple):
    """A request asks for its prefix; repeated while it waits for blocks, and again after a preemption."""

    request_id: str
    at_s: float
    query_tokens: int
    """Tokens of the prompt (after a preemption: of prompt and output)."""
    hit_tokens: int
    keys: Sequence[Hashable] | None = None
    """Keys of the full blocks, isolation keys included; None = unknown, then misses have no reason."""
    content_keys: Sequence[Hashable] | None = None
    """The same chain without isolation keys; None = unknown, then no miss can read ``isolated``."""
    adapter: str | None = None
    salt: Hashable | None = None
    """Stand-in for the salt, only compared, never handed out; ``True`` where only its presence is known."""
    image: Hashable | None = None
    """Stand-in for the image keys, likewise."""
    skipped: bool = False
    """The request may not read the cache (prompt_logprobs and the like)."""
    adapter_load: int = 0
    """How often the adapter of this name was reloaded with other weights before the request came."""
    other_keys: Sequence[Sequence[Hashable]] = ()
    """Of each further KV cache group, all of which a hit needs (hybrid models): for each of ``keys`` that of the
    block which ends with it or next after it; may be shorter."""
    found: Sequence[Hashable] | None = None
    """Keys of the blocks found, of all groups, where they are not simply the leading ones of ``keys``."""


class ExternalLookup(NamedTuple):
    """A cache outside the engine (KV connector) is asked for what the engine's own cache lacks."""

    request_id: str
    at_s: float
    query_tokens: int
    hit_tokens: int
    loads_later: bool = False
    """The tokens are loaded asynchronously: a second call for the same request is not a second lookup."""


class Scheduled(NamedTuple):
    """The blocks of the last lookup were granted: the lookup now counts."""

    request_id: str
    at_s: float
    hit_tokens: int | None = None
    """Hit tokens as admitted, where the engine may grant less than it found; None = all that was found."""


class Preempted(NamedTuple):
    """A running request gave up its blocks and will be looked up again."""

    request_id: str
    at_s: float


class Finished(NamedTuple):
    """A request is over, for whatever reason."""

    request_id: str
    at_s: float
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """The engine's own figure, local and external; -1 or None = never looked up."""
    external_tokens: int | None = None
    """The engine's own figure of the external part."""


class Stored(NamedTuple):
    """Full blocks entered the cache. A key stored while it is cached is one more copy."""

    at_s: float
    keys: Sequence[Hashable]
    request_id: str | None = None
    """Whose blocks they are; gives them adapter, salt and image."""
    first_index: int | None = None
    """Place of the first of them in its chain, 0 for the head."""
    content_keys: Sequence[Hashable] | None = None
    """As in ``Lookup``; None = those of the request's lookup, as far as they reach."""


class Evicted(NamedTuple):
    """Blocks lost their cached content to make room: one entry per block, also of equal keys."""

    at_s: float
    keys: Sequence[Hashable]
    request_id: str | None = None
    """Whose allocation took them."""


class Reset(NamedTuple):
    """Somebody asked to clear the cache; ``ok`` says whether the engine did it."""

    at_s: float
    ok: bool = True


Event = Lookup | ExternalLookup | Scheduled | Preempted | Finished | Stored | Evicted | Reset
