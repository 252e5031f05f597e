"""Hits as a function of the pool size, exact at every size."""

from dataclasses import dataclass

import numpy as np

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.arrays import Bools, Ints
from hitcurve_simulator.estimate.reuse import Reuse, reuse_of

__all__ = ["HitCurve", "hit_curve", "hit_curve_of"]


@dataclass(frozen=True, slots=True)
class _Ramps:
    """Sum over i of max(C - knots[i], 0): knots sorted, with their running sums."""

    knots: Ints
    sums: Ints

    def at(self, pools: Ints) -> Ints:
        passed = np.searchsorted(self.knots, pools)
        values: Ints = pools * passed - self.sums[passed]
        return values


@dataclass(frozen=True, slots=True)
class HitCurve:
    """Hit blocks and hit tokens in a pool of C blocks, for every C, from the runs of reuse."""

    block_size: int
    query_blocks: int
    query_tokens: int
    largest_pool: int
    """The smallest pool that has every hit an unlimited one has."""
    _rises: _Ramps
    _ends: _Ramps
    _short_from: Ints
    _shortfall: Ints

    def hit_blocks(self, pools: Ints) -> Ints:
        """Hit blocks for each pool size."""
        return self._rises.at(pools) - self._ends.at(pools)

    def hit_tokens(self, pools: Ints) -> Ints:
        """Hit tokens for each pool size."""
        shortfall = self._shortfall[np.searchsorted(self._short_from, pools)]
        tokens: Ints = self.hit_blocks(pools) * self.block_size - shortfall
        return tokens

    def tokens_in(self, pool_blocks: int | None) -> int:
        """Hit tokens in one pool; None: unlimited."""
        return int(self.hit_tokens(self._sizes(pool_blocks))[0])

    def rate_in(self, pool_blocks: int | None) -> float | None:
        """Hit tokens / query tokens; None where nothing was looked up."""
        return self.tokens_in(pool_blocks) / self.query_tokens if self.query_tokens else None

    def block_rate_in(self, pool_blocks: int | None) -> float | None:
        """Hit blocks / looked-up blocks; None where nothing was looked up."""
        hits = int(self.hit_blocks(self._sizes(pool_blocks))[0])
        return hits / self.query_blocks if self.query_blocks else None

    def pool_for(self, share: float) -> int | None:
        """The smallest pool with this share of the hit tokens of an unlimited one; None where that has none."""
        wanted = share * self.tokens_in(None)
        if wanted <= 0:
            return None
        low, high = 0, self.largest_pool
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.tokens_in(middle) >= wanted else (middle, high)
        return high

    def knots(self) -> Ints:
        """Pool sizes between which the curve is straight."""
        joined = np.concatenate((self._rises.knots, self._ends.knots, self._short_from, self._short_from + 1))
        return np.unique(joined[joined > 0])

    def _sizes(self, pool_blocks: int | None) -> Ints:
        return np.array([self.largest_pool if pool_blocks is None else pool_blocks], dtype=np.int64)


def hit_curve_of(accesses: Accesses) -> HitCurve:
    """The curve of all requests."""
    return hit_curve(accesses, reuse_of(accesses))


def hit_curve(accesses: Accesses, reuse: Reuse, requests: Bools | None = None) -> HitCurve:
    """The curve of the requests that are marked, all of them using the pool; None: of all."""
    chosen = slice(None) if requests is None else requests[reuse.requests]
    asking = slice(None) if requests is None else requests
    nearest, lengths = reuse.nearest[chosen], reuse.lengths[chosen]
    far = nearest + lengths
    last = reuse.ends_chain[chosen]
    shortfall = accesses.block_size - accesses.last_block_tokens[reuse.requests[chosen][last]]
    short_from = (far - 1)[last][shortfall > 0]
    order = np.argsort(short_from)
    return HitCurve(
        block_size=accesses.block_size,
        query_blocks=int(accesses.queried[asking].sum()),
        query_tokens=int(accesses.tokens[asking].sum()),
        largest_pool=int(far.max(initial=1)),
        _rises=_ramps(nearest),
        _ends=_ramps(far),
        _short_from=short_from[order],
        _shortfall=_running_sums(shortfall[shortfall > 0][order]),
    )


def _ramps(knots: Ints) -> _Ramps:
    ordered = np.sort(knots)
    return _Ramps(ordered, _running_sums(ordered))


def _running_sums(values: Ints) -> Ints:
    sums: Ints = np.concatenate(([0], np.cumsum(values)))
    return sums
