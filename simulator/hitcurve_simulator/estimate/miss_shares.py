"""Why tokens are missed under the engine-like definition: hit and all reasons add up to the query tokens."""

from dataclasses import dataclass

import numpy as np

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.hit_curve import HitCurve, hit_curve_of

__all__ = ["MissShares", "miss_shares"]


@dataclass(frozen=True, slots=True)
class MissShares:
    """Tokens by fate in a pool of ``pool_blocks`` (None: unlimited)."""

    pool_blocks: int | None
    hit: int
    compulsory: int
    capacity: int
    isolated: int
    tail: int


def miss_shares(engine: Accesses, curve: HitCurve, pools: list[int | None]) -> list[MissShares]:
    """Shares for each pool; ``curve`` is that of ``engine``.

    ``isolated`` is what the same traffic would find in an unlimited pool without namespaces, and does not.
    """
    size = curve.block_size
    merged = hit_curve_of(engine.with_keys(engine.names))
    isolated = (_found(merged, None) - _found(curve, None)) * size
    partial = int(engine.tokens.sum() - engine.queried.sum() * size)
    shares = []
    for pool in pools:
        hit, found = curve.tokens_in(pool), _found(curve, pool)
        capacity = (_found(curve, None) - found) * size
        tail = partial + found * size - hit
        compulsory = curve.query_tokens - hit - capacity - tail - isolated
        shares.append(MissShares(pool, hit, compulsory, capacity, isolated, tail))
    return shares


def _found(curve: HitCurve, pool: int | None) -> int:
    return int(curve.hit_blocks(np.array([curve.largest_pool if pool is None else pool]))[0])
