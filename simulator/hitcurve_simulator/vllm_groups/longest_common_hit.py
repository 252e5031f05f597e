"""The longest prefix that every kind of attention can reuse.

Follows ``HybridKVCacheCoordinator.find_longest_cache_hit`` of ``vllm/v1/core/kv_cache_coordinator.py``, 0.24 to
0.32: each kind accepts the length so far or shortens it, until all agree.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from hitcurve_simulator.vllm import BlockPool
from hitcurve_simulator.vllm_groups.attention import Attention, Blocks, FullAttention
from hitcurve_simulator.vllm_groups.group import Group

__all__ = ["Hit", "Kind", "kinds_of", "longest_common_hit"]


@dataclass(frozen=True, slots=True)
class Hit:
    """What a lookup found: ``tokens`` of the prompt, and for each group its blocks, null blocks among them."""

    tokens: int
    blocks: tuple[list[int], ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """Groups with equal attention: a block counts as cached where all of them have it."""

    attention: Attention
    groups: tuple[Group, ...]

    @property
    def block_size(self) -> int:
        return self.attention.block_size

    def longest_hit(self, pool: BlockPool, keys: Sequence[Hashable], tokens: int, drop_last: bool) -> list[Blocks]:
        """Blocks of the longest prefix of at most this many tokens."""

        def find(block: int) -> Blocks | None:
            cached = [pool.cached_block(group.key(keys, block)) for group in self.groups]
            held = tuple(block for block in cached if block is not None)
            return held if len(held) == len(cached) else None

        most, unit = tokens // self.block_size, self.groups[0].unit
        return self.attention.longest_hit(find, most, len(self.groups), unit, drop_last)


def kinds_of(groups: Sequence[Group]) -> list[Kind]:
    """The groups by their kind, full attention first."""
    by_kind: dict[Attention, list[Group]] = {}
    for group in groups:
        by_kind.setdefault(group.attention, []).append(group)
    kinds = [Kind(attention, tuple(alike)) for attention, alike in by_kind.items()]
    return sorted(kinds, key=lambda kind: not isinstance(kind.attention, FullAttention))


def longest_common_hit(
    kinds: Sequence[Kind],
    pool: BlockPool,
    keys: Sequence[Hashable],
    most_tokens: int,
    margin_to: int,
    drop_last: bool,
) -> Hit:
    """The prefix and its blocks, at most ``most_tokens``; holds nothing.

    With ``drop_last`` (EAGLE) each kind looks one block further than the others, but not beyond ``margin_to``
    tokens, and gives that block up, once for each length.
    """
    if len(kinds) == 1 and len(kinds[0].groups) == 1:
        return _hit(kinds, [kinds[0].longest_hit(pool, keys, most_tokens, drop_last)])
    found: list[list[Blocks] | None] = [None] * len(kinds)
    dropped: set[int] = set()
    length = most_tokens
    once = len(kinds) == 2 and isinstance(kinds[0].attention, FullAttention)
    while True:
        so_far = length
        for place, kind in enumerate(kinds):
            known = found[place]
            if known is not None and isinstance(kind.attention, FullAttention):
                # A leading run can be cut anywhere.
                so_far = min(so_far, len(known) * kind.block_size)
                continue
            drops = drop_last and place not in dropped
            most = min(so_far + kind.block_size, margin_to) if drops else so_far
            longest = found[place] = kind.longest_hit(pool, keys, most, drops)
            if drops:
                dropped.add(place)
            elif len(longest) * kind.block_size < so_far:
                dropped.clear()
            so_far = len(longest) * kind.block_size
        if so_far >= length:
            break
        length = so_far
        if once:
            break
    return _hit(
        kinds, [(of_kind or [])[: length // kind.block_size] for kind, of_kind in zip(kinds, found, strict=True)]
    )


def _hit(kinds: Sequence[Kind], found: Sequence[list[Blocks]]) -> Hit:
    by_group = {
        group.number: [blocks[place] for blocks in of_kind]
        for kind, of_kind in zip(kinds, found, strict=True)
        for place, group in enumerate(kind.groups)
    }
    tokens = len(found[0]) * kinds[0].block_size
    return Hit(tokens, tuple(by_group[number] for number in sorted(by_group)))
