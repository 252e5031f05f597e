"""Stack distances: how large an LRU pool has to be for each block to be found, in one pass for all sizes.

The order of an LRU list does not depend on its size (Mattson et al. 1970), so a block is found in a pool of C
blocks where fewer than C distinct blocks were used since its last use. A request is looked up before it changes
the list and then makes its blocks most recent, tail first. So the head of a chain is always more recent than its
tail, the found blocks of a request are a leading run at every size, and neighbours in a chain that were last used
together have distances that differ by one: it is enough to find the distance of one block of each such run.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.arrays import Bools, Hashes, Ints
from hitcurve_simulator.estimate.dominance import smaller_before

__all__ = ["Reuse", "previous_of_keys", "previous_use", "reuse_of", "run_begins", "run_lengths"]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Runs of looked-up blocks that were used before.

    ``lengths`` blocks of ``requests`` are found in pools of more than ``nearest``, ``nearest + 1``, … blocks.
    ``ends_chain`` marks the runs that hold the last queried block of their request; ``earlier`` is the request
    that used the run last. ``distinct_blocks`` are used at all.
    """

    requests: Ints
    nearest: Ints
    lengths: Ints
    ends_chain: Bools
    earlier: Ints
    distinct_blocks: int


def reuse_of(
    accesses: Accesses,
    previous_of: Callable[[Hashes], Ints] | None = None,
    count_smaller: Callable[[Ints, Ints], Ints] = smaller_before,
) -> Reuse:
    """All runs, in the order of requests, the deepest run of a request first.

    ``previous_of`` and ``count_smaller`` stand in for ``previous_of_keys`` and ``smaller_before``.
    """
    request_of = np.repeat(np.arange(accesses.requests), accesses.lengths)
    previous = previous_use(accesses, request_of, previous_of or previous_of_keys)
    begins = run_begins(accesses, previous)
    lengths = run_lengths(begins, previous)
    last_use, requests = previous[begins], request_of[begins]
    never_used = np.concatenate(([0], np.cumsum(previous < 0)))
    older_before = never_used[begins] + count_smaller(last_use, lengths)
    request_begin = accesses.starts[:-1][requests]
    distance = older_before - (begins - request_begin) - (last_use + 1)
    border = (accesses.starts[1:] - accesses.queried)[requests]
    looked_up = begins >= border
    return Reuse(
        requests=requests[looked_up],
        nearest=(distance - lengths + 1)[looked_up],
        lengths=lengths[looked_up],
        ends_chain=(begins == border)[looked_up],
        earlier=request_of[last_use][looked_up],
        distinct_blocks=int(never_used[-1]),
    )


def previous_use(
    accesses: Accesses, request_of: Ints, previous_of: Callable[[Hashes], Ints] | None = None
) -> Ints:
    """For each use, in the order in which blocks become most recent, the place of the use before; -1: none."""
    last_place = (accesses.starts[:-1] + accesses.starts[1:] - 1)[request_of]
    keys = accesses.keys[last_place - np.arange(accesses.blocks)]
    return (previous_of or previous_of_keys)(keys)


def previous_of_keys(keys: Hashes) -> Ints:
    """For each place the place of the same key before it; -1: none."""
    order = _stable_order(keys)
    ordered = keys[order]
    again = ordered[1:] == ordered[:-1]
    previous = np.full(len(keys), -1, dtype=np.int64)
    previous[order[1:][again]] = order[:-1][again]
    return previous


def _stable_order(keys: Hashes) -> Ints:
    """Equal keys side by side, each group in order of place.

    Sorting numbers made of a key's upper bits and its place takes a tenth of the time of a stable argsort. Should
    two different keys agree in those bits, the slow way is taken.
    """
    place_bits = np.uint64(max(len(keys), 1).bit_length())
    upper = keys >> place_bits << place_bits
    packed = np.sort(upper | np.arange(len(keys), dtype=np.uint64))
    order: Ints = (packed & ((np.uint64(1) << place_bits) - np.uint64(1))).astype(np.int64)
    ordered = keys[order]
    alike = (ordered[1:] >> place_bits) == (ordered[:-1] >> place_bits)
    if (alike & (ordered[1:] != ordered[:-1])).any():
        return np.argsort(keys, kind="stable")
    return order


def run_begins(accesses: Accesses, previous: Ints, more_cuts: Ints | None = None) -> Ints:
    """Places where a run begins: last uses are neighbours, in one request, on one side of what is looked up.

    ``more_cuts``: further places that no run reaches over.
    """
    begins = previous >= 0
    begins[1:] &= previous[1:] != previous[:-1] + 1
    follows_new = np.zeros_like(begins)
    follows_new[1:] = (previous[1:] >= 0) & (previous[:-1] < 0)
    begins |= follows_new
    cuts = np.concatenate((accesses.starts[:-1], accesses.starts[1:] - accesses.queried))
    if more_cuts is not None:
        cuts = np.concatenate((cuts, more_cuts))
    cuts = cuts[cuts < len(previous)]
    begins[cuts] = previous[cuts] >= 0
    return np.flatnonzero(begins)


def run_lengths(begins: Ints, previous: Ints) -> Ints:
    """Blocks of each run: up to the next run or the next block that was never used."""
    new = np.flatnonzero(previous < 0)
    ends = np.append(begins[1:], len(previous))
    next_new = np.append(new, len(previous))[np.searchsorted(new, begins)]
    lengths: Ints = np.minimum(ends, next_new) - begins
    return lengths
