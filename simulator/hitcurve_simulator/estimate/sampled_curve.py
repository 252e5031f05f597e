"""The hit rate of every pool size from a sample of trees, with its error.

Since its last use a block was separated by its own ancestors, by blocks of the trunk, and by blocks of other
trees. The first two are known, the last is what the sample saw of them times one in so many. Hits in the trunk are
counted; hits behind it are the sample's rate times all tokens behind the trunk, a ratio estimate over trees
(Cochran, Sampling Techniques, 3rd edition, chapters 6 and 9A). The error is the spread between parts of the
sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.arrays import Bools, Ints
from hitcurve_simulator.estimate.dominance import smaller_before
from hitcurve_simulator.estimate.hit_curve import HitCurve, hit_curve
from hitcurve_simulator.estimate.prefix_hashes import mixed
from hitcurve_simulator.estimate.reuse import Reuse, previous_use, run_begins, run_lengths
from hitcurve_simulator.estimate.tree_sample import Sampled

__all__ = ["GROUPS", "Rate", "SampledCurve", "sampled_curve"]

Rates: TypeAlias = NDArray[np.float64]

GRID = 400
"""Pools at which errors are computed; straight between them."""
GROUPS = 10
"""Parts of the sample whose spread tells the error."""
ENOUGH_REQUESTS = 20
"""So many drawn requests between two uses tell as much as all stretches of that length together."""
LEAST_ERROR = 0.001
STUDENT = 3.25
"""99.5 % of Student's distribution with ``GROUPS - 1`` degrees of freedom: more than the 97.5 % of normal errors,
since trees are of very different size and a sample misses the few largest more often than not."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A hit rate, and how far off it may be, with 95 % confidence; None is no value."""

    value: float | None
    error: float | None


@dataclass(frozen=True, slots=True)
class _Curves:
    """Hits in the trunk, counted, and behind it, in the sample alone."""

    trunk: HitCurve
    behind: HitCurve
    factor: float
    """Tokens behind the trunk, all of them by those in the sample."""
    query_tokens: int

    def tokens(self, pools: Ints) -> Rates:
        found = self.trunk.hit_tokens(pools) + self.factor * self.behind.hit_tokens(pools)
        return np.asarray(found, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class SampledCurve:
    """``HitCurve`` by estimate: rates with errors. ``trees`` are in the sample."""

    block_size: int
    query_tokens: int
    largest_pool: int
    distinct_blocks: int
    trees: int
    _curves: _Curves
    _grid: Ints
    _spread: Rates | None
    """Half an interval by the parts, at each pool of the grid; None where there are too few parts."""
    _left_out: float
    _drawn_every_blocks: float
    """Blocks that all requests use from one drawn request to the next."""

    def hit_tokens(self, pools: Ints) -> Ints:
        """Hit tokens for each pool size."""
        tokens: Ints = np.rint(self._curves.tokens(pools)).astype(np.int64)
        return tokens

    def rate_in(self, pool_blocks: int | None) -> float | None:
        """Hit tokens / query tokens; None: unlimited, and None where nothing was looked up."""
        return self.rate(pool_blocks).value

    def rate(self, pool_blocks: int | None) -> Rate:
        """The same with its error. No error can be told from fewer than two trees a part."""
        if not self.query_tokens:
            return Rate(None, None)
        pools = np.array([self.largest_pool if pool_blocks is None else pool_blocks], dtype=np.int64)
        value = float(self._curves.tokens(pools)[0]) / self.query_tokens
        if self._spread is None:
            return Rate(value, None if self._left_out else 0.0)
        spread = float(np.interp(pools[0], self._grid, self._spread))
        return Rate(value, max(float(np.hypot(spread, self._blur(int(pools[0])))), LEAST_ERROR))

    def _blur(self, pool: int) -> float:
        """What the rate changes by where distances are wrong by twice their own error, which all parts share.

        Few drawn requests lie between the uses of a block that a small pool just holds.
        """
        between = pool / max(self._drawn_every_blocks, 1.0)
        off = 2.0 / (ENOUGH_REQUESTS + between) ** 0.5
        near = np.array([pool / (1 + off), pool * (1 + off)])
        low, high = self._curves.tokens(np.rint(near).astype(np.int64)) / self.query_tokens
        return float(high - low) / 2


def sampled_curve(sampled: Sampled) -> SampledCurve:
    """The curve of a sample; ``ValueError`` where no tree was drawn though some were to be."""
    if sampled.blocks and not sampled.drawn.any():
        raise ValueError("no tree was drawn")
    reuse, in_trunk, factor = _reuse(sampled)
    curves = _curves(sampled, reuse, in_trunk)
    trees = np.unique(sampled.tree[sampled.drawn])
    groups = mixed(trees + np.uint64(1)) % np.uint64(GROUPS)
    part_of = groups[np.searchsorted(trees, sampled.tree).clip(max=max(len(trees) - 1, 0))] if len(trees) else None
    largest = max(curves.trunk.largest_pool, curves.behind.largest_pool)
    grid = np.unique(np.geomspace(1, largest, GRID).astype(np.int64))
    parts = []
    for number in range(GROUPS if part_of is not None and factor > 1 else 0):
        assert part_of is not None
        part = sampled.only(part_of == np.uint64(number))
        if part.drawn.any():
            parts.append(_curves(part, *_reuse(part)[:2]).tokens(grid) / max(curves.query_tokens, 1))
    behind = int((~in_trunk * reuse.lengths).sum())
    left_out = max(1.0 - 1.0 / factor, 0.0) if behind or factor > 1 else 0.0
    return SampledCurve(
        block_size=sampled.accesses.block_size,
        query_tokens=curves.query_tokens,
        largest_pool=largest,
        distinct_blocks=reuse.distinct_blocks,
        trees=len(trees),
        _curves=curves,
        _grid=grid,
        _spread=_spread(parts, left_out) if len(parts) > 1 else None,
        _left_out=left_out,
        _drawn_every_blocks=float(sampled.behind.sum()) / max(int(sampled.drawn.sum()), 1),
    )


def _spread(parts: Sequence[Rates], left_out: float) -> Rates:
    spread: Rates = np.std(parts, axis=0, ddof=1) * STUDENT * (left_out / len(parts)) ** 0.5
    return spread


def _curves(sampled: Sampled, reuse: Reuse, in_trunk: Bools) -> _Curves:
    behind = sampled.tokens_behind
    drawn = int(behind[sampled.drawn].sum())
    return _Curves(
        hit_curve(sampled.accesses, _only(reuse, in_trunk)),
        hit_curve(sampled.accesses, _only(reuse, ~in_trunk)),
        float(behind.sum()) / drawn if drawn else 0.0,
        int(sampled.accesses.tokens.sum()),
    )


def _only(reuse: Reuse, chosen: Bools) -> Reuse:
    return replace(
        reuse,
        requests=reuse.requests[chosen],
        nearest=reuse.nearest[chosen],
        lengths=reuse.lengths[chosen],
        ends_chain=reuse.ends_chain[chosen],
        earlier=reuse.earlier[chosen],
    )


def _reuse(sampled: Sampled) -> tuple[Reuse, Bools, float]:
    """Runs as ``reuse_of`` has them, with estimated distances; whether each lies in the trunk; one in so many."""
    accesses, starts = sampled.accesses, sampled.accesses.starts
    request_of = np.repeat(np.arange(accesses.requests), accesses.lengths)
    border = starts[1:] - np.minimum(sampled.trunk, accesses.lengths)
    in_trunk = np.arange(accesses.blocks) >= border[request_of]
    drawn_blocks = int(np.maximum(accesses.queried - sampled.trunk, 0)[sampled.drawn].sum())
    factor = sampled.blocks / drawn_blocks if drawn_blocks else 1.0
    previous = previous_use(accesses, request_of)
    begins = run_begins(accesses, previous, border)
    lengths = run_lengths(begins, previous)
    trunk_run = in_trunk[begins]
    requests = request_of[begins]
    own = starts[1:][requests] - 1 - begins
    own_trunk = np.minimum(own, sampled.trunk[requests])
    trunk = _between(accesses, request_of, previous, begins, lengths, in_trunk)
    others = _between(accesses, request_of, previous, begins, lengths, ~in_trunk)
    ancestors = own - own_trunk
    distance = trunk + ancestors + _of_all(sampled, requests, request_of[previous[begins]], others - ancestors)
    first_asked = (starts[1:] - accesses.queried)[requests]
    asked = begins >= first_asked
    new = previous < 0
    reuse = Reuse(
        requests=requests[asked],
        nearest=(distance - lengths + 1)[asked],
        lengths=lengths[asked],
        ends_chain=(begins == first_asked)[asked],
        earlier=request_of[previous[begins]][asked],
        distinct_blocks=round(int((new & in_trunk).sum()) + factor * int((new & ~in_trunk).sum())),
    )
    return reuse, trunk_run[asked], factor


def _of_all(sampled: Sampled, requests: Ints, earlier: Ints, seen: Ints) -> Ints:
    """Distinct blocks behind the trunk that all requests between two uses have, by those ``seen`` of drawn ones.

    How many blocks the requests in between used is known, drawn or not; how many of those were distinct is the
    sample's ratio. Where few drawn requests lie in between it is that of stretches of about the same length.
    """
    if sampled.drawn.all():
        return seen
    every = np.concatenate(([0], np.cumsum(sampled.behind)))
    drawn = np.concatenate(([0], np.cumsum(np.where(sampled.drawn, sampled.behind, 0))))
    used, used_drawn = every[requests] - every[earlier + 1], drawn[requests] - drawn[earlier + 1]
    length = (2 * np.log2(1 + used)).astype(np.int64)
    by_length = np.bincount(length, seen) / np.maximum(np.bincount(length, used_drawn), 1)
    usual = np.where(np.bincount(length, used_drawn) > 0, by_length, 1.0)[length]
    enough = ENOUGH_REQUESTS * sampled.behind[sampled.drawn].mean()
    distinct = (seen + enough * usual) / (used_drawn + enough)
    found: Ints = np.rint(used * distinct).astype(np.int64)
    return found


def _between(
    accesses: Accesses, request_of: Ints, previous: Ints, begins: Ints, lengths: Ints, counted: Bools
) -> Ints:
    """Distinct counted blocks that were used since the last use of the deepest block of each run."""
    places = np.concatenate(([0], np.cumsum(counted)))
    never_used = np.concatenate(([0], np.cumsum(counted & (previous < 0))))
    weights = np.where(counted[begins], lengths, 0)
    last_use = previous[begins]
    request_begin = accesses.starts[:-1][request_of[begins]]
    older_before = never_used[begins] + smaller_before(last_use, weights)
    between: Ints = older_before - (places[begins] - places[request_begin]) - places[last_use + 1]
    return between
