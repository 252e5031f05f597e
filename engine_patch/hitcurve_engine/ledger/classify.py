"""Why tokens of one lookup were missed; the rules are told in docs/miss_reasons.md."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from hitcurve_engine.ledger.blocks import Block, BlockTable, Ghost, Origin
from hitcurve_engine.ledger.records import MISS_REASONS, MissReason

__all__ = ["Misses", "classify"]


@dataclass(slots=True)
class Misses:
    """The missed tokens of one lookup by reason, and what else the walk over its blocks showed."""

    tokens: dict[MissReason, int]
    isolated_by: dict[str, int]
    evicted: list[tuple[Ghost, int]]
    """Ghosts asked for again, with the tokens that are recomputed because they went."""
    withheld_blocks: int
    """Cached blocks behind a fully cached prefix that the engine did not give."""


def classify(
    table: BlockTable,
    block_size: int,
    query_tokens: int,
    hit_tokens: int,
    keys: Sequence[Hashable],
    content_keys: Sequence[Hashable] | None,
    origin: Origin,
    others: Sequence[Sequence[Hashable]] = (),
) -> Misses:
    """Give every missed token of a lookup its reason, as the cache is now.

    ``others`` are the keys of the same blocks in further KV cache groups, all of which a hit needs.

    ``hit_tokens`` lies between 0 and ``query_tokens``. The reasons add up to ``query_tokens - hit_tokens``.
    Raises ValueError where ``keys`` or ``content_keys`` hold less than the full blocks of the query.
    """
    full = query_tokens // block_size
    if len(keys) < full or (content_keys is not None and len(content_keys) < full):
        raise ValueError(f"too few keys: {query_tokens} query tokens fill {full} blocks of {block_size}")
    misses = Misses(dict.fromkeys(MISS_REASONS, 0), {}, [], 0)
    reusable = max(query_tokens - 1, 0) // block_size
    misses.tokens["tail"] = query_tokens - max(hit_tokens, reusable * block_size)
    first, given = divmod(hit_tokens, block_size)
    size = block_size - given
    cached, ghost_of = table.cached, table.ghost
    gap = False
    compulsory = 0
    for index in range(first, reusable):
        key = keys[index]
        if key not in cached:
            gap = True
            if (gone := ghost_of(key)) is not None:
                _gone(misses, gone, size)
            elif content_keys is None or (other := table.first_with(content_keys[index])) is None:
                compulsory += size
            else:
                _isolated(misses, other, origin, size)
        elif others and (ghost := _gone_elsewhere(table, others, index)) is not None:
            gap = True
            _gone(misses, ghost, size)
        elif gap:
            misses.tokens["stranded"] += size
            _blame(misses, size)
        else:
            misses.tokens["tail"] += size
            misses.withheld_blocks += 1
        size = block_size
    misses.tokens["compulsory"] = compulsory
    return misses


def _gone(misses: Misses, ghost: Ghost, size: int) -> None:
    if ghost.by_reset:
        misses.tokens["reset"] += size
    else:
        misses.tokens["capacity"] += size
        misses.evicted.append((ghost, size))


def _gone_elsewhere(table: BlockTable, others: Sequence[Sequence[Hashable]], index: int) -> Ghost | None:
    """The block of another group that went, though the followed group has its own still."""
    for keys in others:
        if index < len(keys) and keys[index] not in table.cached:
            ghost = table.ghost(keys[index])
            if ghost is not None:
                return ghost
    return None


def _isolated(misses: Misses, other: Block, origin: Origin, size: int) -> None:
    """The same tokens are cached, hence under another key."""
    kind = _isolating_kind(origin, other.origin)
    misses.tokens["isolated"] += size
    misses.isolated_by[kind] = misses.isolated_by.get(kind, 0) + size


def _blame(misses: Misses, size: int) -> None:
    """Charge stranded tokens to the nearest evicted block before them."""
    if misses.evicted:
        ghost, tokens = misses.evicted[-1]
        misses.evicted[-1] = (ghost, tokens + size)


def _isolating_kind(asked: Origin, cached: Origin) -> str:
    """The first of adapter, salt and image that differs.

    Where only presence is known nothing may differ; then it is a kind that is present, the least visible first.
    """
    if asked.adapter != cached.adapter:
        return "adapter"
    if asked.salt != cached.salt:
        return "salt"
    if asked.image != cached.image:
        return "image"
    if asked.image is not None:
        return "image"
    if asked.salt is not None:
        return "salt"
    return "adapter"
