"""Stack distances in shards, equal to ``reuse_of``: the two steps that cost time are cut up and joined exactly.

The last use of every block is found in shards by name: equal names are in one shard. The number of blocks that
were used before and not since is counted in shards by place: within a shard as ever, and against each shard before
it by searching among its sorted last uses.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.arrays import Hashes, Ints
from hitcurve_simulator.estimate.dominance import smaller_before
from hitcurve_simulator.estimate.reuse import Reuse, previous_of_keys, reuse_of
from hitcurve_simulator.sharded.workers import Workers

__all__ = ["sharded_reuse"]

Sorted = tuple[Ints, Ints]
"""Values in order, and the weights of those that are smaller than each place."""


def sharded_reuse(accesses: Accesses, workers: Workers) -> Reuse:
    """The runs of ``accesses``."""
    return reuse_of(accesses, partial(_previous, workers=workers), _counted(workers))


def _previous(keys: Hashes, workers: Workers) -> Ints:
    """For each place the place of the same key before it, -1 for the first."""
    shard_of = keys % np.uint64(workers.count)
    places = [np.flatnonzero(shard_of == np.uint64(shard)) for shard in range(workers.count)]
    started = [workers.start(previous_of_keys, keys[those]) for those in places]
    previous = np.full(len(keys), -1, dtype=np.int64)
    for those, one in zip(places, started, strict=True):
        within: Ints = workers.result(one)
        again = within >= 0
        previous[those[again]] = those[within[again]]
    return previous


def _counted(workers: Workers) -> Callable[[Ints, Ints], Ints]:
    def count(values: Ints, weights: Ints) -> Ints:
        cuts = np.linspace(0, len(values), workers.count + 1).astype(np.int64).tolist()
        shards = [slice(first, end) for first, end in pairwise(cuts)]
        ordered = [workers.start(sorted_part, values[shard], weights[shard]) for shard in shards]
        counted = [
            workers.start(count_before, values[shard], weights[shard], *ordered[:number])
            for number, shard in enumerate(shards)
        ]
        return np.concatenate([workers.result(one) for one in counted])

    return count


def sorted_part(values: Ints, weights: Ints) -> Sorted:
    """A shard, made ready to be searched by the shards behind it."""
    order = np.argsort(values)
    return values[order], np.concatenate(([0], np.cumsum(weights[order])))


def count_before(values: Ints, weights: Ints, *earlier: Sorted) -> Ints:
    """``smaller_before`` of a shard, those of the shards before it included."""
    sums = smaller_before(values, weights)
    for ordered, below in earlier:
        sums = sums + below[np.searchsorted(ordered, values)]
    return sums
