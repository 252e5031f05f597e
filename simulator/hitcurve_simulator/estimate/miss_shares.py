"""Why tokens are missed under the engine-like definition: hit and all reasons add up to the query tokens."""

from dataclasses import dataclass

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

    ``tail``: partial last blocks, and the last block of a prompt without one. ``isolated`` is what the same
    traffic would find in an unlimited pool without namespaces, and does not.
    """
    merged = curve if engine.keys is engine.names else hit_curve_of(engine.with_keys(engine.names))
    isolated = merged.tokens_in(None) - curve.tokens_in(None)
    aligned = (engine.queried > 0) & (engine.last_block_tokens == 0)
    tail = int(engine.tokens.sum() - (engine.queried.sum() - aligned.sum()) * curve.block_size)
    shares = []
    for pool in pools:
        hit = curve.tokens_in(pool)
        capacity = curve.tokens_in(None) - hit
        compulsory = curve.query_tokens - hit - capacity - tail - isolated
        shares.append(MissShares(pool, hit, compulsory, capacity, isolated, tail))
    return shares
