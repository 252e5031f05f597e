"""Keys and blocks of a request, in any version from 0.8.5 on and with any number of groups."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from hitcurve_engine.probes.adoption import CacheShape

__all__ = ["Held", "blocks_by_group", "found_keys", "hashes_of_blocks", "heal", "keys_of", "other_keys", "runs"]

Held = dict[int, tuple[Hashable, str]]
"""By block id: the key it holds, and who stored it."""


def keys_of(shape: CacheShape, tokens: int, hashes: list[Hashable]) -> list[Hashable] | None:
    """Keys of the full blocks of a request, in the followed group; ``None`` where they cannot be known."""
    step = shape.block_size // shape.hash_block_size
    full = tokens // shape.block_size
    keys = hashes[step - 1 : full * step : step]
    if len(keys) < full - 1:
        return None
    # The engine may hash the last block only once it knows the tokens behind it.
    return keys if len(keys) == full else [*keys, object()]


def other_keys(shape: CacheShape, tokens: int, hashes: Sequence[Hashable]) -> list[list[Hashable]]:
    """See ``OtherGroups.keys``. A key of another group than the followed one is a pair of group and hash."""
    size, per_hash = shape.block_size, shape.hash_block_size
    chains: list[list[Hashable]] = []
    for group, group_size in shape.other_groups:
        ends = [-(-end // group_size) * group_size for end in range(size, tokens + 1, size)]
        ends = [end for end in ends if end <= tokens and end // per_hash <= len(hashes)]
        chains.append([(group, hashes[end // per_hash - 1]) for end in ends])
    return chains


def blocks_by_group(found: Any) -> Sequence[Sequence[Any]]:
    """The blocks of a lookup's result: one sequence per group (0.9.1+), or those of the only one."""
    blocks = getattr(found, "blocks", found)
    return blocks if blocks and isinstance(blocks[0], list | tuple) else (blocks,)


def hashes_of_blocks(hashes: list[Hashable], first: int, end: int, step: int) -> list[Hashable]:
    """Keys of the blocks from ``first`` to before ``end``: of each block's ``step`` hashes the last."""
    return hashes[(first + 1) * step - 1 : end * step : step]


def found_keys(held: Held, groups: Sequence[Sequence[int]]) -> list[Hashable]:
    """Keys of the blocks that a lookup found; a place that a sliding window left empty has none."""
    return [held[block_id][0] for blocks in groups for block_id in blocks if block_id in held]


def heal(held: Held, request_id: str, keys: Sequence[Hashable] | None, blocks: Sequence[int]) -> None:
    """After a gap: a block that is found and that nothing is known of gets its key back."""
    if keys is None or not blocks or blocks[0] in held:
        return
    for block_id, key in zip(blocks, keys, strict=False):
        if block_id:
            held.setdefault(block_id, (key, request_id))


def runs(indices: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Half-open stretches of consecutive numbers, in a list that rises."""
    if indices and indices[-1] - indices[0] == len(indices) - 1:
        yield indices[0], indices[-1] + 1
        return
    start = 0
    for place in range(1, len(indices) + 1):
        if place == len(indices) or indices[place] != indices[place - 1] + 1:
            yield indices[start], indices[place - 1] + 1
            start = place
