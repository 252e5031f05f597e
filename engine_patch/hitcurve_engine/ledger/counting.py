"""How a scheduled lookup enters the totals and its request, and what is told of an eviction."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from hitcurve_engine.ledger.blocks import Block
from hitcurve_engine.ledger.records import Eviction, Regret, Totals
from hitcurve_engine.ledger.requests import OpenRequest, PendingLookup

__all__ = ["admit", "check_lookup", "count_lookup", "count_recompute", "evictions_of"]

_new_eviction: Callable[[tuple[Any, ...]], Eviction] = partial(tuple.__new__, Eviction)
"""The same as ``Eviction(…)`` in half the time, which is the larger part of what an evicted block costs."""


def admit(request: OpenRequest, lookup: PendingLookup, hit_tokens: int) -> None:
    """The engine granted ``hit_tokens`` of what it found: what it withheld is ``tail``."""
    if hit_tokens > lookup.hit_tokens:
        request.note("admitted_exceeds_hits")
        return
    withheld = lookup.hit_tokens - max(hit_tokens, 0)
    lookup.hit_tokens -= withheld
    if lookup.misses is not None:
        lookup.misses.tokens["tail"] += withheld


def count_lookup(totals: Totals, request: OpenRequest, lookup: PendingLookup) -> None:
    """The first scheduling of a request: queries, hits, misses by reason, external lookups."""
    if lookup.skipped:
        totals.skipped_requests += 1
        totals.skipped_tokens += lookup.query_tokens
        request.external_query_tokens = request.external_hit_tokens = None
        return
    missed = lookup.query_tokens - lookup.hit_tokens
    totals.requests += 1
    totals.query_tokens += lookup.query_tokens
    totals.hit_tokens += lookup.hit_tokens
    totals.stale_hit_tokens += min(lookup.stale.tokens, lookup.hit_tokens)
    totals.external_query_tokens += request.external_query_tokens or 0
    totals.external_hit_tokens += request.external_hit_tokens or 0
    if lookup.misses is None:
        totals.unexplained_miss_tokens += missed
        return
    reasons = lookup.misses.tokens
    if sum(reasons.values()) != missed:
        raise AssertionError(f"{request.request_id}: {reasons} do not add up to {missed} missed tokens")
    for reason, tokens in reasons.items():
        totals.miss_tokens[reason] += tokens
    for kind, tokens in lookup.misses.isolated_by.items():
        totals.isolated_by[kind] += tokens


def count_recompute(totals: Totals, request: OpenRequest, lookup: PendingLookup) -> None:
    """A scheduling after a preemption: kept apart, since the request mostly finds its own blocks."""
    request.recompute_query_tokens += lookup.query_tokens
    request.recompute_hit_tokens += lookup.hit_tokens
    totals.recompute_query_tokens += lookup.query_tokens
    totals.recompute_hit_tokens += lookup.hit_tokens


def check_lookup(
    totals: Totals,
    request: OpenRequest,
    lookup: PendingLookup,
    at_s: float,
    withheld_blocks: int | None,
    on_regret: Callable[[Regret], None] | None,
) -> None:
    """What a counted lookup says about the cache besides its numbers: odd misses, regretted evictions."""
    misses = lookup.misses
    if misses is None:
        return
    if withheld_blocks is not None and misses.withheld_blocks > withheld_blocks:
        request.note("missed_cached_block")
    for ghost, tokens in misses.evicted:
        totals.regretted_tokens += tokens
        if on_regret is not None:
            after_s = None if ghost.gone_at_s is None else at_s - ghost.gone_at_s
            on_regret(Regret(at_s, request.request_id, request.origin.adapter, after_s, tokens))


def evictions_of(blocks: Iterable[Block], at_s: float, request_id: str | None) -> list[Eviction]:
    """The records of blocks that just lost their content."""
    return [
        _new_eviction(
            (
                at_s,
                at_s - block.stored_at_s,
                at_s - block.last_used_s,
                block.reuses,
                block.depth,
                block.origin.adapter,
                request_id,
                block.copies,
            )
        )
        for block in blocks
    ]
