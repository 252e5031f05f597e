"""Names of prefixes: two prompts have the same name at a position where, and only where, they agree up to it.

A name is the sum of one well-mixed 64-bit number for each (item, place) so far, so that running sums name every
prefix of every prompt at once, at any block size. Two different prefixes share a name with a probability of
2**-64: among ten million blocks the chance that any two do is about 3 in a million.
"""

import numpy as np

from hitcurve_simulator.estimate.arrays import Hashes, Ints

__all__ = ["keyed", "mixed", "prefix_hashes"]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mixed(values: Hashes) -> Hashes:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014), element by element, on a copy."""
    values = values + _STEP
    values ^= values >> np.uint64(30)
    values *= _FIRST
    values ^= values >> np.uint64(27)
    values *= _SECOND
    values ^= values >> np.uint64(31)
    return values


def prefix_hashes(items: Ints, starts: Ints, salts: Hashes | None = None) -> Hashes:
    """The name of the prefix that ends at each item; ``starts`` (with the end) cut the items into prompts.

    ``salts``, one a prompt, keep apart prompts whose items mean different things.
    """
    lengths = np.diff(starts)
    places = np.arange(len(items)) - np.repeat(starts[:-1], lengths)
    terms = mixed(np.arange(lengths.max(initial=0), dtype=np.uint64))[places]
    terms ^= items.view(np.uint64)
    terms = mixed(terms)
    if salts is not None:
        terms = mixed(terms ^ np.repeat(salts, lengths))
    sums = np.empty(len(items) + 1, dtype=np.uint64)
    sums[0] = 0
    np.cumsum(terms, out=sums[1:])
    return sums[1:] - np.repeat(sums[starts[:-1]], lengths)


def keyed(names: Hashes, namespaces: Hashes) -> Hashes:
    """Names that also tell apart namespaces (0: the common one), one for each element."""
    if not namespaces.any():
        return names
    return np.where(namespaces == 0, names, mixed(names ^ mixed(namespaces)))
