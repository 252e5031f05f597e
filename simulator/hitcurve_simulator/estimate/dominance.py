"""For each element: the weight of the elements before it that have a smaller value."""

import numpy as np

from hitcurve_simulator.estimate.arrays import Ints

__all__ = ["smaller_before"]


def smaller_before(values: Ints, weights: Ints) -> Ints:
    """Sum of ``weights`` over the elements to the left that are smaller; values are distinct.

    The elements, sorted by value, are split again and again by one bit of their place, the highest first: those
    in the right half of a stretch of places collect the weights of smaller ones in the left half. O(n log n).
    """
    count = len(values)
    sums = np.zeros(count, dtype=np.int64)
    places = np.argsort(values)
    index = np.arange(count)
    for bit in range(max(count - 1, 0).bit_length() - 1, -1, -1):
        right = (places >> bit & 1).astype(np.bool_)
        begin = index >> (bit + 1) << (bit + 1)
        left_weights = np.where(right, 0, weights[places])
        before = np.concatenate(([0], np.cumsum(left_weights)))
        sums[places[right]] += (before[index] - before[begin])[right]
        rights = np.concatenate(([0], np.cumsum(right)))
        rank = rights[index] - rights[begin]
        target = np.where(right, begin + (1 << bit) + rank, index - rank)
        moved = np.empty_like(places)
        moved[target] = places
        places = moved
    return sums
