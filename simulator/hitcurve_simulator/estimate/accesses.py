"""The blocks that each request looks up and leaves behind, as arrays."""

from dataclasses import dataclass

import numpy as np

from hitcurve_simulator.estimate.arrays import Bools, Hashes, Ints

__all__ = ["Accesses"]


@dataclass(frozen=True, slots=True)
class Accesses:
    """Requests in the order of replay, each with the chain of its blocks, head first.

    ``starts`` has one place more than there are requests. Of each chain the first ``queried`` blocks are looked
    up; all of it becomes most recent, tail first. A hit block is worth ``block_size`` tokens, a hit on the last
    queried one ``last_block_tokens``; ``tokens`` are looked up in all.
    """

    block_size: int
    starts: Ints
    names: Hashes
    """Prefix that ends with the block, whoever asks."""
    keys: Hashes
    """The same, kept apart by namespace: what a cache tells blocks by."""
    queried: Ints
    tokens: Ints
    last_block_tokens: Ints

    @property
    def requests(self) -> int:
        return len(self.queried)

    @property
    def blocks(self) -> int:
        """Block events, a block counted each time it is used."""
        return len(self.keys)

    @property
    def lengths(self) -> Ints:
        """Blocks of each request."""
        lengths: Ints = np.diff(self.starts)
        return lengths

    def chosen(self, requests: Ints) -> "Accesses":
        """The given requests in the given order."""
        lengths = self.lengths[requests]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        blocks = np.arange(starts[-1]) + np.repeat(self.starts[requests] - starts[:-1], lengths)
        return Accesses(
            self.block_size,
            starts,
            self.names[blocks],
            self.keys[blocks],
            self.queried[requests],
            self.tokens[requests],
            self.last_block_tokens[requests],
        )

    def with_keys(self, keys: Hashes) -> "Accesses":
        """The same traffic where blocks are told apart by other keys."""
        return Accesses(
            self.block_size,
            self.starts,
            self.names,
            keys,
            self.queried,
            self.tokens,
            self.last_block_tokens,
        )

    def without_last_blocks(self, dropped: Bools, last_block_tokens: Ints) -> "Accesses":
        """Without the last block of the requests that are ``dropped``; the new last blocks are worth as given."""
        keep = np.ones(self.blocks, dtype=np.bool_)
        keep[self.starts[1:][dropped] - 1] = False
        lengths = self.lengths - dropped
        names = self.names[keep]
        return Accesses(
            self.block_size,
            np.concatenate(([0], np.cumsum(lengths))),
            names,
            names if self.keys is self.names else self.keys[keep],
            np.minimum(self.queried, lengths),
            self.tokens,
            last_block_tokens,
        )
