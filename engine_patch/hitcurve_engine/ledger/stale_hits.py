"""Hits on blocks that other weights of the same adapter computed.

A block belongs to the load of the adapter under which it was stored. What is computed behind a stale prefix
attends to it, so such blocks count as of that earlier load as well, whoever stored them.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from hitcurve_engine.ledger.blocks import BlockTable, Origin

__all__ = ["NOTHING_STALE", "StaleHits", "stale_hits"]


class StaleHits(NamedTuple):
    """``tokens`` of a lookup were found in blocks of earlier loads; its own then come from ``stored_as``."""

    tokens: int
    stored_as: Origin | None


NOTHING_STALE = StaleHits(0, None)


def stale_hits(
    table: BlockTable, block_size: int, keys: Sequence[Hashable], hit_tokens: int, asked: Origin
) -> StaleHits:
    """Look at the blocks that a lookup found."""
    tokens, oldest = 0, asked.adapter_load
    left = hit_tokens
    for key in keys[: -(-hit_tokens // block_size)]:
        block = table.cached.get(key)
        if block is not None and block.origin.adapter_load < asked.adapter_load:
            tokens += min(left, block_size)
            oldest = min(oldest, block.origin.adapter_load)
        left -= block_size
    return StaleHits(tokens, replace(asked, adapter_load=oldest)) if tokens else NOTHING_STALE
