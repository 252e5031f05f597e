"""The same traffic over several replicas, each with a pool of its own."""

from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.arrays import Ints
from hitcurve_simulator.estimate.hit_curve import HitCurve, hit_curve_of
from hitcurve_simulator.estimate.prefix_hashes import mixed
from hitcurve_simulator.estimate.reuse import reuse_of

__all__ = ["AFFINITY", "POLICIES", "Routed", "route"]

AFFINITY: Final = "affinity"
POLICIES: Final = {
    AFFINITY: "follows the longest known prefix where it covers half of the prompt, else the replica that was "
    "sent the fewest tokens",
    "round-robin": "one replica after the other",
    "random": "any replica, by the seed",
}


@dataclass(frozen=True, slots=True)
class Routed:
    """Hits of all replicas together, by the pool size of each, and the share of query tokens of the busiest."""

    policy: str
    curve: HitCurve
    busiest_share: float | None


def route(accesses: Accesses, replicas: int, policy: str, seed: int) -> Routed:
    """Send every request to one of the replicas and replay each of them."""
    count = accesses.requests
    if policy == AFFINITY:
        replica_of = _by_longest_prefix(accesses, replicas)
    elif policy == "round-robin":
        replica_of = np.arange(count) % replicas
    else:
        draw = Random(seed)
        replica_of = np.array([draw.randrange(replicas) for _ in range(count)], dtype=np.int64)
    # One replica after the other, their blocks kept apart: no reuse distance reaches into another replica.
    order = np.argsort(replica_of, kind="stable")
    one_by_one = accesses.chosen(order)
    own = np.repeat(replica_of[order], one_by_one.lengths).astype(np.uint64)
    curve = hit_curve_of(one_by_one.with_keys(mixed(one_by_one.keys ^ mixed(own))))
    loads = np.bincount(replica_of, weights=accesses.tokens, minlength=replicas)
    return Routed(policy, curve, float(loads.max() / loads.sum()) if loads.sum() else None)


def _by_longest_prefix(accesses: Accesses, replicas: int) -> Ints:
    reuse = reuse_of(accesses)
    matched = np.bincount(reuse.requests, weights=reuse.lengths, minlength=accesses.requests)
    deepest = np.full(accesses.requests, -1, dtype=np.int64)
    # The runs of a request come deepest first; assigned in reverse, the deepest one stays.
    deepest[reuse.requests[::-1]] = reuse.earlier[::-1]
    follows = matched * 2 >= np.maximum(accesses.queried, 1)
    chosen: list[int] = []
    loads = [0] * replicas
    for tokens, last, wanted in zip(accesses.tokens.tolist(), deepest.tolist(), follows.tolist(), strict=True):
        replica = chosen[last] if wanted and last >= 0 else loads.index(min(loads))
        loads[replica] += tokens
        chosen.append(replica)
    return np.array(chosen, dtype=np.int64)
